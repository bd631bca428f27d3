//! The programs that judge what is shipped: helm, kubeconform and kube-score from their Go
//! modules, Prometheus from Debian, and the schemas that Kubernetes publishes.
//!
//! Each is pinned, built or unpacked once, and kept in the cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{Cache, fingerprint};
use crate::failure::{Failure, Result, While};
use crate::machine;

/// Built from source, which takes about four minutes of one core: helm is nearly all of it.
const PROGRAMS: [&str; 3] = [
    "helm.sh/helm/v4/cmd/helm@v4.3.1",
    "github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0",
    "github.com/zegl/kube-score/cmd/kube-score@v1.20.0",
];

/// What a Go module publishes besides its code: a file or a directory of it, kept as `name`.
struct Published {
    module: &'static str,
    path: &'static str,
    name: &'static str,
}

const SCHEMAS: [Published; 2] = [
    Published {
        module: "k8s.io/kubernetes@v1.36.3",
        path: "api/openapi-spec/swagger.json",
        name: "swagger.json",
    },
    Published {
        module: "github.com/prometheus-operator/prometheus-operator@v0.85.0",
        path: "example/prometheus-operator-crd",
        name: "crds",
    },
];

/// Of the package `prometheus` only these: no service is installed.
const OF_PROMETHEUS: [&str; 2] = ["prometheus", "promtool"];

/// A directory with all of them, or nothing where there is no Go to build with.
pub(crate) fn require(cache: &Cache) -> Result<Option<PathBuf>> {
    let Some(go) = go() else { return Ok(None) };
    let version = machine::output_of(&go, &["version"])?;
    let modules = SCHEMAS.map(|published| published.module).join(" ");
    let recipe = format!("{version} {} {modules}", PROGRAMS.join(" "));
    let name = format!("ship-tools-{}", fingerprint(&recipe));
    cache
        .get_or_make(&name, |dir| {
            println!("building helm, kubeconform and kube-score: a few minutes, once");
            build_programs(&go, dir)?;
            fetch_schemas(&go, dir)?;
            unpack_prometheus(dir)
        })
        .map(Some)
}

/// `go` of the path, or where its own installer puts it.
fn go() -> Option<String> {
    ["go", "/usr/local/go/bin/go"]
        .into_iter()
        .find(|go| machine::runs(go, &["version"]))
        .map(str::to_owned)
}

fn build_programs(go: &str, dir: &Path) -> Result<()> {
    for program in PROGRAMS {
        let mut install = Command::new("nice");
        install.args([go, "install", "-ldflags=-s -w", program]);
        machine::run(install.env("GOBIN", dir.join("bin")).env("GOFLAGS", "-mod=mod"))
            .while_doing(|| format!("build {program}"))?;
    }
    Ok(())
}

fn fetch_schemas(go: &str, dir: &Path) -> Result<()> {
    let schemas = dir.join("schemas");
    fs::create_dir_all(&schemas).while_doing(|| format!("create {}", schemas.display()))?;
    for Published { module, path, name } in SCHEMAS {
        let published = unpack(go, module)?.join(path);
        // Modules are unpacked read-only; the copy is ours.
        let mut copy = Command::new("cp");
        machine::run(
            copy.args(["-r", "--no-preserve=mode"]).arg(published).arg(schemas.join(name)),
        )?;
    }
    Ok(())
}

/// Where Go has unpacked a module.
fn unpack(go: &str, module: &str) -> Result<PathBuf> {
    let said = machine::output_of(go, &["mod", "download", "-json", module])?;
    directory_in(&said)
        .map(PathBuf::from)
        .ok_or_else(|| Failure::new(format!("go mod download {module} names no directory")))
}

fn directory_in(json: &str) -> Option<&str> {
    json.split_once("\"Dir\": \"")?.1.split('"').next()
}

fn unpack_prometheus(dir: &Path) -> Result<()> {
    let scratch = dir.join("package");
    fs::create_dir_all(&scratch).while_doing(|| format!("create {}", scratch.display()))?;
    download_package("prometheus", &scratch)?;
    let package = fs::read_dir(&scratch)
        .while_doing(|| format!("read {}", scratch.display()))?
        .flatten()
        .find(|file| file.path().extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| Failure::new("apt-get download prometheus left no package"))?;
    machine::run(Command::new("dpkg-deb").arg("-x").arg(package.path()).arg(&scratch))?;
    for program in OF_PROMETHEUS {
        let (from, to) = (scratch.join("usr/bin").join(program), dir.join("bin").join(program));
        fs::rename(&from, &to).while_doing(|| format!("keep {}", to.display()))?;
    }
    fs::remove_dir_all(&scratch).while_doing(|| format!("remove {}", scratch.display()))
}

/// A fresh image has no package lists, and stale ones have dead links.
fn download_package(package: &str, dir: &Path) -> Result<()> {
    let download = || {
        let mut apt = Command::new("apt-get");
        machine::run(apt.args(["-qq", "download", package]).current_dir(dir))
    };
    download()
        .or_else(|_| {
            machine::run(Command::new("apt-get").args(["-qq", "update"])).and_then(|()| download())
        })
        .while_doing(|| format!("download the Debian package {package}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_a_module_is_read_from_what_go_says() {
        let said = "{\n\t\"Path\": \"k8s.io/x\",\n\t\"Dir\": \"/go/pkg/mod/k8s.io/x@v1\"\n}";
        assert_eq!(directory_in(said), Some("/go/pkg/mod/k8s.io/x@v1"));
        assert_eq!(directory_in("{\"Error\": \"no\"}"), None);
    }

    #[test]
    fn every_program_is_pinned() {
        assert!(PROGRAMS.iter().all(|program| program.contains("@v")));
        assert!(SCHEMAS.iter().all(|published| published.module.contains("@v")));
    }
}
