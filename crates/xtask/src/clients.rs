//! The Python client suite: an environment with exactly the pinned packages, and pytest in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Clients;
use crate::cache::{Cache, fingerprint};
use crate::failure::{Result, While};
use crate::workspace::Workspace;
use crate::{jobs, machine};

/// Sends the clients past the worker, to tell a fault of the suite from one of Forebay.
pub(crate) const DIRECT: &str = "FOREBAY_CLIENTS_DIRECT";

const SUITE: &str = "tests/clients";
const OTHERS: &str = "others";
const REQUIREMENTS: &str = "requirements.txt";

/// pytest over the suite, ready to run against the binary that was built last.
pub(crate) fn suite(workspace: &Workspace, clients: Clients) -> Result<Command> {
    let suite = workspace.root().join(SUITE);
    let others = suite.join(OTHERS);
    let requirements = match clients {
        Clients::Promised => vec![suite.join(REQUIREMENTS)],
        Clients::All => vec![suite.join(REQUIREMENTS), others.join(REQUIREMENTS)],
    };
    require_programs(clients)?;
    let mut pytest = pytest(&environment(&Cache::open()?, &requirements)?, &suite);
    pytest.env("FOREBAY_BIN", jobs::binary(workspace)?);
    if clients == Clients::Promised {
        pytest.arg("--ignore").arg(&others);
    }
    Ok(pytest)
}

/// The clients that no Python package brings. Without the promised ones the suite fails; the
/// tests of the others say why they are skipped.
fn require_programs(clients: Clients) -> Result<()> {
    if !machine::runs("curl", &["--version"]) {
        machine::install("curl", &["curl"])?;
    }
    if clients == Clients::All
        && !machine::runs("s3fs", &["--version"])
        && let Err(missing) = machine::install("s3fs", &["s3fs"])
    {
        println!("{missing}");
    }
    Ok(())
}

/// pytest over a suite. Nothing of a run stays in the checkout: no bytecode, no pytest cache.
pub(crate) fn pytest(python: &Path, suite: &Path) -> Command {
    let mut pytest = Command::new(python);
    pytest
        .args(["-B", "-m", "pytest", "--color=no", "-p", "no:cacheprovider", "-ra", "--rootdir"])
        .args([suite, suite]);
    pytest
}

/// The interpreter of an environment for these requirements and this Python, made once.
pub(crate) fn environment(cache: &Cache, requirements: &[PathBuf]) -> Result<PathBuf> {
    require_venv()?;
    let mut recipe = machine::output_of("python3", &["--version"])?;
    for file in requirements {
        recipe += &fs::read_to_string(file).while_doing(|| format!("read {}", file.display()))?;
    }
    let name = format!("clients-{}", fingerprint(&recipe));
    let dir = cache.get_or_make_in_place(&name, |dir| {
        println!("installing Python packages into {}", dir.display());
        machine::run(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
        // The pins name every package, so there is nothing for pip to resolve.
        let pip = ["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"];
        let mut install = Command::new(python_in(dir));
        install.args(pip);
        for file in requirements {
            install.arg("-r").arg(file);
        }
        machine::run(&mut install)
    })?;
    Ok(python_in(&dir))
}

fn python_in(environment: &Path) -> PathBuf {
    environment.join("bin/python")
}

/// Debian splits venv from python3, and its bundled pip (ensurepip) goes with it.
fn require_venv() -> Result<()> {
    if machine::runs("python3", &["-c", "import venv, ensurepip"]) {
        return Ok(());
    }
    machine::install("Python with venv", &["python3", "python3-venv"])
}
