//! From a bare machine to one where cargo builds fast: compiler, sources, libclang, RocksDB.
//!
//! Ends in `.cargo/local.toml`, so that an editor or plain cargo profits too. Each part is a
//! quick look when it is already there.

use crate::cache::Cache;
use crate::failure::{Result, While};
use crate::workspace::Workspace;
use crate::{libclang, local_toml, machine, rocksdb};

/// Makes what is missing; afterwards `workspace.cargo()` builds with it.
pub(crate) fn prepare(mut workspace: Workspace) -> Result<Workspace> {
    machine::require_cxx()?;
    machine::run(workspace.cargo().args(["fetch", "--locked", "--quiet"]))
        .while_doing(|| "fetch the locked dependencies".to_owned())?;
    let cache = Cache::open()?;
    let libclang = libclang::require(&workspace, &cache)?;
    let mut variables = rocksdb::require(&workspace, &cache, &libclang)?;
    variables.extend(libclang);
    local_toml::write(workspace.root(), &variables)?;
    workspace.choose(variables);
    Ok(workspace)
}
