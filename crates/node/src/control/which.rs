//! Which worker an operator means.

use super::{ControlError, WorkerLine};

/// The one of `workers` that `given` names: by id, address or host, else by the beginning of
/// its id.
pub(super) fn worker(workers: Vec<WorkerLine>, given: &str) -> Result<WorkerLine, ControlError> {
    let (exact, others): (Vec<_>, Vec<_>) =
        workers.into_iter().partition(|worker| is_called(worker, given));
    let (mut found, others) = if exact.is_empty() {
        others.into_iter().partition(|worker| begins_with(worker, given))
    } else {
        (exact, others)
    };
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (None, _) => Err(ControlError::NoSuchWorker { given: given.into(), known: names(&others) }),
        (Some(last), false) => {
            found.push(last);
            Err(ControlError::SeveralWorkers { given: given.into(), found: names(&found) })
        }
    }
}

fn is_called(worker: &WorkerLine, given: &str) -> bool {
    let is_at =
        |addr: &str| addr == given || addr.rsplit_once(':').is_some_and(|(host, _)| host == given);
    worker.id.to_string() == given || is_at(&worker.s3) || is_at(&worker.data)
}

fn begins_with(worker: &WorkerLine, given: &str) -> bool {
    !given.is_empty() && worker.id.to_string().starts_with(&given.to_ascii_lowercase())
}

fn names(workers: &[WorkerLine]) -> String {
    let name = |worker: &WorkerLine| format!("{} ({})", worker.id, worker.s3);
    match workers {
        [] => "none that has registered yet".into(),
        _ => workers.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use forebay_types::WorkerId;

    use super::*;

    fn workers() -> Vec<WorkerLine> {
        let line = |(id, host): (u64, &str)| WorkerLine {
            id: WorkerId(id),
            state: "active",
            s3: format!("{host}:9000"),
            data: format!("{host}:9100"),
            zone: String::new(),
            capacity_bytes: 1,
            weight: Some(100),
            owned_ratio: Some(0.25),
            heard_ago_ms: None,
        };
        let ids = [0xab12_0000_0000_0000, 0xab34_0000_0000_0000, 0xcd00_0000_0000_0000];
        ids.into_iter().zip(["10.0.0.1", "10.0.0.10", "w-2.forebay"]).map(line).collect()
    }

    #[test]
    fn a_worker_is_found_by_what_is_enough_to_tell_it_from_the_others() {
        for (given, id) in [
            ("ab12000000000000", 0xab12_0000_0000_0000_u64),
            ("ab3", 0xab34_0000_0000_0000),
            ("C", 0xcd00_0000_0000_0000),
            ("10.0.0.1", 0xab12_0000_0000_0000),
            ("10.0.0.10:9100", 0xab34_0000_0000_0000),
            ("w-2.forebay:9000", 0xcd00_0000_0000_0000),
        ] {
            assert_eq!(worker(workers(), given).unwrap().id, WorkerId(id), "{given}");
        }
    }

    #[test]
    fn what_names_none_or_several_is_refused_with_those_that_there_are() {
        let several = worker(workers(), "ab").unwrap_err().to_string();
        assert!(several.contains("ab12000000000000 (10.0.0.1:9000), ab34"), "{several}");
        assert!(!several.contains("cd00"), "{several}");
        for given in ["f", "", "10.0.0.2", "9000"] {
            let none = worker(workers(), given).unwrap_err().to_string();
            assert!(none.contains("cd00000000000000 (w-2.forebay:9000)"), "{none}");
        }
        let none = worker(Vec::new(), "ab").unwrap_err().to_string();
        assert!(none.contains("none that has registered"), "{none}");
    }
}
