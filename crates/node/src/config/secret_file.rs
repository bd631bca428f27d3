//! Secrets that live alone in a file.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use forebay_telemetry::Secret;

use super::error::{ConfigError, Refusal};
use super::layers::{Layers, Secrets, Setting};

/// No access key's secret is longer; a bigger file is not one.
const MAX_SECRET_BYTES: u64 = 4096;

/// No STS of AWS takes a longer token.
const MAX_TOKEN_BYTES: u64 = 20_000;

/// A secret read from a file, and whether others on the machine may read it too.
struct SecretFile {
    secret: Secret,
    readable_by_others: bool,
}

/// Reads the secret named by the setting `at`, and warns where others could read it as well.
pub(super) fn secret_at(
    path: &Path,
    at: &str,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<Secret, ConfigError> {
    if layers.secrets == Secrets::Elsewhere {
        return Ok(Secret::new(""));
    }
    let setting = Setting::new(at, path.display().to_string());
    let file = setting.parse(|_| read(path, MAX_SECRET_BYTES))?;
    if file.readable_by_others {
        let path = path.display();
        warnings.push(format!("{at}: everybody on this machine can read {path}: chmod o= {path}"));
    }
    Ok(file.secret)
}

/// Looks whether the token named by the setting `at` can be read. It is not kept: its issuer
/// replaces it again and again. Nor is it warned of: one that Kubernetes projects can be read by
/// everybody in its pod, and the issuer decides that.
pub(super) fn check_token(path: &Path, at: &str, layers: Layers<'_>) -> Result<(), ConfigError> {
    if layers.secrets == Secrets::Elsewhere {
        return Ok(());
    }
    let setting = Setting::new(at, path.display().to_string());
    setting.parse(|_| read(path, MAX_TOKEN_BYTES)).map(drop)
}

/// Reads the secret; spaces and line ends around it are not part of it.
fn read(path: &Path, max_bytes: u64) -> Result<SecretFile, Refusal> {
    let unreadable = |error: std::io::Error| {
        Refusal::new(error.to_string(), "name a file that Forebay's user can read")
    };
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text).map_err(unreadable)?;
    let secret = text.trim();
    if secret.is_empty() || text.len() as u64 > max_bytes {
        return Err(Refusal::new(
            format!("holds {} bytes", text.len()),
            "write the secret, and nothing else, into that file",
        ));
    }
    Ok(SecretFile { secret: Secret::new(secret), readable_by_others: mode & 0o007 != 0 })
}
