#!/bin/sh
# Makes the image's file system in the empty directory DIR, as root: the libraries that the binary
# needs, from Debian packages, and the binary. No shell, no package manager. The Dockerfile and
# the tests run the same.
#
# usage: rootfs.sh BINARY DIR
set -eu

binary=$(realpath "$1")
root=$2
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT

cd "$packages"
apt-get -qq download libc6 libgcc-s1 libstdc++6 ca-certificates
mkdir -p "$root"
for package in *.deb; do
    dpkg-deb --extract "$package" "$root"
done

# Certificates in the one file that TLS libraries look for; `update-ca-certificates` is a script.
find "$root/usr/share/ca-certificates" -name '*.crt' | sort | while read -r certificate; do
    cat "$certificate"
done > "$root/etc/ssl/certs/ca-certificates.crt"

# Character sets, tools and texts that nobody here reads; the licences stay.
cd "$root"
rm -rf usr/lib/*/gconv usr/lib/*/audit usr/sbin etc/ca-certificates
find usr/share/doc -name examples -exec rm -rf {} +
rm -rf usr/share/ca-certificates usr/share/man usr/share/lintian usr/share/gdb usr/share/gcc

echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' > etc/passwd
echo 'nonroot:x:65532:' > etc/group
echo 'hosts: files dns' > etc/nsswitch.conf
# Places for volumes, and for what the container's runtime mounts.
mkdir -p proc sys dev run
touch etc/hosts etc/resolv.conf
install -d -m 1777 tmp
install -d -o 65532 -g 65532 cache var/lib/forebay
install -D -m 755 "$binary" usr/bin/forebay
strip usr/bin/forebay
