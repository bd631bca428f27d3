# Asks one worker: is it ready, are bytes right, is the second read a hit, is it counted?
# HOST is its name, BUCKET and OBJECT what to read. Without OBJECT, NEW_OBJECT is written first
# and deleted in the end. With AWS_ACCESS_KEY_ID, requests are signed; AWS_SDK_UA_APP_ID is what
# they are counted under, as with an SDK.
set -eu
cd "$(mktemp -d)"

fail() { echo "FAILED: $*" >&2; exit 1; }

# A name of several workers: all that follows goes to the one that answers now.
worker=$(curl -sS --fail --retry 30 --retry-all-errors --retry-delay 2 --max-time 10 \
    -o ready -w '%{remote_ip}' "http://$HOST:9600/readyz") || fail "no worker of $HOST is ready"
echo "worker $worker is ready"

# Until --aws-sigv4 does it by itself, the hash of the body has to be said.
s3() {
    key=$1; shift
    if [ -n "${AWS_ACCESS_KEY_ID:-}" ]; then
        set -- --aws-sigv4 "aws:amz:$AWS_REGION:s3" -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' \
            --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "$@"
    fi
    if [ -n "${AWS_SDK_UA_APP_ID:-}" ]; then
        set -- --user-agent "curl app/$AWS_SDK_UA_APP_ID" "$@"
    fi
    curl -sS --fail --max-time 120 "$@" "http://$worker:9000/$BUCKET/$key"
}

object=${OBJECT:-}
if [ -z "$object" ]; then
    object=$NEW_OBJECT
    head -c 1000000 /dev/urandom > written
    s3 "$object" -T written || fail "write s3://$BUCKET/$object"
    echo "wrote s3://$BUCKET/$object"
fi

s3 "$object" -o first || fail "read s3://$BUCKET/$object"
[ ! -f written ] || cmp written first || fail "other bytes came back than were written"

# What was read is a hit as soon as it is stored, which a slow disk may delay.
tries=0
until grep -qiE '^x-forebay-cache: (hit|peer)' head 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -le 60 ] || fail "read $tries times, and still no hit"
    [ "$tries" -le 3 ] || sleep 1
    s3 "$object" -o again -D head || fail "read s3://$BUCKET/$object again"
    cmp first again || fail "two reads of one object differ"
done
echo "read $(wc -c < first) bytes, then again from the cache: the same"

curl -sS --fail --max-time 10 -o metrics "http://$worker:9600/metrics" || fail "read the metrics"
grep -E '^forebay_served_requests_total\{.*tier="(ram|nvme|peer)"\} [1-9]' metrics \
    || fail "the metrics count no hit"

[ ! -f written ] || s3 "$object" -X DELETE || fail "delete s3://$BUCKET/$object"
echo OK
