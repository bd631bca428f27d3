//! What went wrong, said as what the caller should do about it.

/// The small public code behind every error that can reach a reader.
///
/// Crates keep rich private errors; each maps to one of these in one `code()` method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The key does not exist at the origin: do not ask again soon.
    NoSuchKey,
    /// The bucket does not exist at the origin, or no rule names it.
    NoSuchBucket,
    /// The origin refuses Forebay's own identity: fix the rule's credentials.
    OriginDenied,
    /// A limit was reached, here or at the origin: ask again later.
    SlowDown,
    /// The origin cannot be reached or answers with errors: ask again later.
    OriginUnavailable,
    /// The object changed while its bytes were on their way: ask again.
    VersionMoved,
    /// A mistake of ours: report it.
    Internal,
}
