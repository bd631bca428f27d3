//! The last view, kept on disk: with all voters gone, a worker that restarts still knows its ring.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forebay_types::View;
use forebay_wire::view::{decode_view, encode_view};
use tokio::sync::watch;

const FILE: &str = "cluster.view";

/// The view kept below this directory, if there is a sound one.
pub(crate) fn load(disk: &Path) -> Option<View> {
    let path = disk.join(FILE);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the kept view cannot be read");
            return None;
        }
    };
    match decode_view(&bytes) {
        Ok(view) => Some(view),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the kept view is damaged");
            None
        }
    }
}

/// Keeps each new view for as long as the task lives.
pub(crate) async fn keep(disk: PathBuf, mut views: watch::Receiver<Arc<View>>) {
    loop {
        let view = views.borrow_and_update().clone();
        let disk = disk.clone();
        let kept = forebay_rt::spawn_blocking(move || write(&disk, &view)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "the view cannot be kept: a restart without voters will not know it");
        }
        if views.changed().await.is_err() {
            return;
        }
    }
}

/// Whole or not at all.
fn write(disk: &Path, view: &View) -> io::Result<()> {
    if view.revision == 0 {
        return Ok(());
    }
    let new = disk.join(format!("{FILE}.new"));
    std::fs::write(&new, encode_view(view))?;
    std::fs::rename(&new, disk.join(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_kept_and_a_torn_one_is_not_believed() {
        let disk = tempfile::tempdir().unwrap();
        assert_eq!(load(disk.path()), None);
        let view = View { revision: 7, ..View::default() };
        write(disk.path(), &view).unwrap();
        assert_eq!(load(disk.path()), Some(view));
        let path = disk.path().join(FILE);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(load(disk.path()), None);
    }
}
