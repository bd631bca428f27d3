//! The view of the cluster, as a message and as a file.

use forebay_types as types;
use forebay_types::{
    Epoch, PREVIOUS_RINGS, RingConfig, RingMember, RingSpec, WorkerId, WorkerInfo,
};

use crate::WireError;
pub use crate::generated::forebay::view::v1::{Member, Ring, Rules, View, Worker, WorkerState};

/// What a stored view begins with; the last byte is the version of this form.
const MAGIC: [u8; 4] = *b"FBV\x01";

/// The bytes of `view` for keeping it: they tell whether they are whole.
pub fn encode_view(view: &types::View) -> Vec<u8> {
    let body = prost::Message::encode_to_vec(&View::from(view));
    let crc = crc32c::crc32c(&body);
    [&MAGIC[..], &crc.to_le_bytes(), &body].concat()
}

/// Reads what [`encode_view`] wrote; anything torn, cut or changed is an error.
pub fn decode_view(bytes: &[u8]) -> Result<types::View, WireError> {
    let body = bytes.strip_prefix(&MAGIC).ok_or_else(|| invalid("it does not begin as one"))?;
    let (crc, body) = body.split_first_chunk().ok_or_else(|| invalid("it ends in its header"))?;
    if u32::from_le_bytes(*crc) != crc32c::crc32c(body) {
        return Err(invalid("its checksum is of other bytes"));
    }
    let view: View = prost::Message::decode(body).map_err(|error| invalid(error.to_string()))?;
    view.try_into()
}

impl From<&types::View> for View {
    fn from(view: &types::View) -> Self {
        Self {
            revision: view.revision,
            ring: Some(Ring::from(&view.ring)),
            previous: view.previous.iter().map(Ring::from).collect(),
            workers: view.workers.iter().map(Worker::from).collect(),
            rules: view.rules.as_ref().map(Rules::from),
        }
    }
}

impl TryFrom<View> for types::View {
    type Error = WireError;

    fn try_from(view: View) -> Result<Self, WireError> {
        if view.previous.len() > PREVIOUS_RINGS {
            return Err(invalid(format!("{} previous rings", view.previous.len())));
        }
        let ring = view.ring.ok_or_else(|| invalid("no ring"))?;
        let previous = view.previous.into_iter().map(RingSpec::try_from);
        let workers = view.workers.into_iter().map(WorkerInfo::try_from);
        let view = Self {
            revision: view.revision,
            ring: ring.try_into()?,
            previous: previous.collect::<Result<_, _>>()?,
            workers: workers.collect::<Result<_, _>>()?,
            rules: view.rules.map(types::Rules::from),
        };
        check_order(&view)?;
        Ok(view)
    }
}

fn check_order(view: &types::View) -> Result<(), WireError> {
    if !view.workers.is_sorted_by(|one, next| one.id < next.id) {
        return Err(invalid("workers out of order"));
    }
    let rings = [&view.ring].into_iter().chain(&view.previous);
    if !rings.is_sorted_by(|newer, older| newer.epoch > older.epoch) {
        return Err(invalid("rings out of order"));
    }
    Ok(())
}

impl From<&RingSpec> for Ring {
    fn from(ring: &RingSpec) -> Self {
        let member = |member: &RingMember| Member { id: member.id.0, weight: member.weight };
        Self {
            epoch: ring.epoch.0,
            virtual_nodes: ring.config.virtual_nodes,
            seed: ring.config.seed,
            members: ring.members.iter().map(member).collect(),
        }
    }
}

impl TryFrom<Ring> for RingSpec {
    type Error = WireError;

    fn try_from(ring: Ring) -> Result<Self, WireError> {
        if !ring.members.is_sorted_by(|one, next| one.id < next.id) {
            return Err(invalid("members out of order"));
        }
        let member =
            |member: &Member| RingMember { id: WorkerId(member.id), weight: member.weight };
        Ok(Self {
            epoch: Epoch(ring.epoch),
            config: RingConfig { virtual_nodes: ring.virtual_nodes, seed: ring.seed },
            members: ring.members.iter().map(member).collect(),
        })
    }
}

impl From<&WorkerInfo> for Worker {
    fn from(worker: &WorkerInfo) -> Self {
        Self {
            id: worker.id.0,
            state: WorkerState::from(worker.state).into(),
            data_addr: worker.data_addr.clone(),
            s3_addr: worker.s3_addr.clone(),
            zone: worker.zone.clone(),
            capacity_bytes: worker.capacity_bytes,
        }
    }
}

impl TryFrom<Worker> for WorkerInfo {
    type Error = WireError;

    fn try_from(worker: Worker) -> Result<Self, WireError> {
        let state = match worker.state() {
            WorkerState::Joining => types::WorkerState::Joining,
            WorkerState::Active => types::WorkerState::Active,
            WorkerState::Draining => types::WorkerState::Draining,
            WorkerState::Down => types::WorkerState::Down,
            WorkerState::Unspecified => {
                let reason = format!("a worker of state {}", worker.state);
                return Err(WireError { message: "Worker", reason });
            }
        };
        Ok(Self {
            id: WorkerId(worker.id),
            state,
            data_addr: worker.data_addr,
            s3_addr: worker.s3_addr,
            zone: worker.zone,
            capacity_bytes: worker.capacity_bytes,
        })
    }
}

impl From<types::WorkerState> for WorkerState {
    fn from(state: types::WorkerState) -> Self {
        match state {
            types::WorkerState::Joining => Self::Joining,
            types::WorkerState::Active => Self::Active,
            types::WorkerState::Draining => Self::Draining,
            types::WorkerState::Down => Self::Down,
        }
    }
}

impl From<&types::Rules> for Rules {
    fn from(rules: &types::Rules) -> Self {
        Self { version: rules.version, toml: rules.toml.clone() }
    }
}

impl From<Rules> for types::Rules {
    fn from(rules: Rules) -> Self {
        Self { version: rules.version, toml: rules.toml }
    }
}

fn invalid(reason: impl Into<String>) -> WireError {
    WireError { message: "View", reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn state() -> impl Strategy<Value = types::WorkerState> {
        use types::WorkerState::{Active, Down, Draining, Joining};
        prop_oneof![Just(Joining), Just(Active), Just(Draining), Just(Down)]
    }

    fn workers() -> impl Strategy<Value = Vec<WorkerInfo>> {
        let worker = (state(), ".{0,9}", ".{0,9}", ".{0,9}", any::<u64>());
        btree_map(any::<u64>(), worker, 0..9).prop_map(|workers| {
            let worker = |(id, (state, data_addr, s3_addr, zone, capacity_bytes))| {
                let id = WorkerId(id);
                WorkerInfo { id, state, data_addr, s3_addr, zone, capacity_bytes }
            };
            workers.into_iter().map(worker).collect()
        })
    }

    /// Rings from the newest to the oldest.
    fn rings() -> impl Strategy<Value = Vec<RingSpec>> {
        let ring = (any::<u32>(), any::<u64>(), btree_map(any::<u64>(), any::<u32>(), 0..9));
        btree_map(any::<u64>(), ring, 1..=PREVIOUS_RINGS + 1).prop_map(|rings| {
            let member = |(id, weight)| RingMember { id: WorkerId(id), weight };
            let ring = |(epoch, (virtual_nodes, seed, members))| RingSpec {
                epoch: Epoch(epoch),
                config: RingConfig { virtual_nodes, seed },
                members: std::collections::BTreeMap::into_iter(members).map(member).collect(),
            };
            rings.into_iter().rev().map(ring).collect()
        })
    }

    fn view() -> impl Strategy<Value = types::View> {
        let rules = proptest::option::of((any::<u64>(), ".{0,30}"));
        (any::<u64>(), rings(), workers(), rules).prop_map(
            |(revision, mut rings, workers, rules)| {
                let ring = rings.remove(0);
                let rules = rules.map(|(version, toml)| types::Rules { version, toml });
                types::View { revision, ring, previous: rings, workers, rules }
            },
        )
    }

    fn sample() -> types::View {
        let id = WorkerId(7);
        let worker = |id| WorkerInfo {
            id,
            state: types::WorkerState::Active,
            data_addr: "10.0.0.1:9100".into(),
            s3_addr: "10.0.0.1:9000".into(),
            zone: "a".into(),
            capacity_bytes: 1 << 44,
        };
        let members =
            vec![RingMember { id, weight: 100 }, RingMember { id: WorkerId(8), weight: 90 }];
        let ring = RingSpec { epoch: Epoch(3), config: RingConfig::default(), members };
        let before = RingSpec { epoch: Epoch(2), members: vec![], ..ring.clone() };
        let workers = vec![worker(id), worker(WorkerId(8))];
        types::View { revision: 9, ring, previous: vec![before], workers, rules: None }
    }

    #[test]
    fn a_stored_view_that_was_cut_or_changed_anywhere_is_no_view() {
        let bytes = encode_view(&sample());
        for len in 0..bytes.len() {
            assert!(decode_view(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_view(&bytes).is_err(), "bit {bit}");
        }
        assert!(decode_view(&[&bytes[..], &[0]].concat()).is_err(), "a byte too many");
    }

    #[test]
    fn a_view_that_breaks_a_promise_of_its_type_is_refused() {
        type Breach = fn(&mut View);
        let breaches: [(&str, Breach); 7] = [
            ("no ring", |view| view.ring = None),
            ("members out of order", |view| view.ring.as_mut().unwrap().members.reverse()),
            ("members out of order", |view| view.previous[0].members = vec![Member::default(); 2]),
            ("workers out of order", |view| view.workers.reverse()),
            ("rings out of order", |view| view.previous[0].epoch = 3),
            ("5 previous rings", |view| view.previous = vec![Ring::default(); PREVIOUS_RINGS + 1]),
            ("a worker of state 5", |view| view.workers[1].state = 5),
        ];
        let sound = View::from(&sample());
        assert_eq!(types::View::try_from(sound.clone()), Ok(sample()));
        for (reason, breach) in breaches {
            let mut broken = sound.clone();
            breach(&mut broken);
            assert_eq!(types::View::try_from(broken).unwrap_err().reason, reason);
        }
        let nothing = Worker { state: WorkerState::Unspecified.into(), ..sound.workers[0].clone() };
        assert_eq!(WorkerInfo::try_from(nothing).unwrap_err().reason, "a worker of state 0");
    }

    proptest! {
        #[test]
        fn a_view_comes_back_as_it_was_kept(view in view()) {
            prop_assert_eq!(decode_view(&encode_view(&view)).unwrap(), view);
        }

        #[test]
        fn no_bytes_make_the_reader_of_views_panic(body in vec(any::<u8>(), 0..200)) {
            let crc = crc32c::crc32c(&body).to_le_bytes();
            let _ = decode_view(&[&MAGIC[..], &crc, &body].concat());
            let _ = decode_view(&body);
        }
    }
}
