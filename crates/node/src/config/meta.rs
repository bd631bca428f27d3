//! A voter: its number, its directory, and whom the group is first formed of.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use forebay_wire::ClusterSecret;

use super::address::{self, Advertise};
use super::error::{ConfigError, Refusal, missing};
use super::layers::{Knob, Layers, Setting};
use super::raw::RawMeta;

const DEFAULT_LISTEN: &str = "0.0.0.0:9701";

/// An even number would bear no more failures than the odd one below it.
const GROUP_SIZES: [usize; 3] = [1, 3, 5];

/// Settings that say of a process that it is a voter.
const VOTER: [Knob; 5] =
    [Knob::MetaId, Knob::MetaDir, Knob::MetaListen, Knob::MetaAdvertise, Knob::InitialVoters];

/// A voter.
#[derive(Debug, Clone)]
pub struct MetaConfig {
    /// What every worker and voter knows and nobody else.
    pub secret: ClusterSecret,
    /// Its number; never used again by another directory.
    pub id: u64,
    /// Where log, vote and state are kept.
    pub dir: PathBuf,
    /// Its control port.
    pub listen: SocketAddr,
    /// What workers and other voters are told to call.
    pub advertise: Advertise,
    /// Whom the group is formed of when it starts for the first time: this voter among 1, 3 or
    /// 5. Empty where a running group is to add it.
    pub initial_voters: Vec<InitialVoter>,
}

/// A voter that the group is first formed of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitialVoter {
    /// Its number.
    pub id: u64,
    /// What it is called by; [`Advertise::Taken`] only for the voter whose configuration it is.
    pub advertise: Advertise,
}

impl MetaConfig {
    /// The addresses of the other voters that the group is first formed of.
    pub(super) fn others(&self) -> Vec<String> {
        let others = self.initial_voters.iter().filter(|voter| voter.id != self.id);
        let written = |voter: &InitialVoter| match &voter.advertise {
            Advertise::Written(address) => Some(address.clone()),
            Advertise::Taken => None,
        };
        others.filter_map(written).collect()
    }
}

/// Whether anything says that the process is a voter.
pub(super) fn is_given(raw: Option<&RawMeta>, layers: Layers<'_>) -> bool {
    raw.is_some() || layers.any(&VOTER)
}

/// Gives a voter's settings their meaning.
pub(super) fn resolve(
    raw: RawMeta,
    secret: ClusterSecret,
    layers: Layers<'_>,
) -> Result<MetaConfig, ConfigError> {
    let required =
        |given: Option<Setting>, key: &str, fix: &str| given.ok_or_else(|| missing(key, fix));
    let id = required(
        layers.or_file(Knob::MetaId, "meta.id", raw.id),
        "meta.id",
        "give the voter a number that no other has had, from 1",
    )?;
    let dir = layers.or_file(Knob::MetaDir, "meta.dir", raw.dir.as_deref().map(Path::display));
    let dir =
        required(dir, "meta.dir", "name a directory for its log and state, on a disk that lasts")?;
    let given = layers.or_file(Knob::MetaListen, "meta.listen", raw.listen);
    let listen = address::listen(given, DEFAULT_LISTEN)?;
    let given = layers.or_file(Knob::MetaAdvertise, "meta.advertise", raw.advertise);
    let advertise = address::advertise(given, "meta.advertise", listen)?;
    let own = InitialVoter { id: id.parse(voter_id)?, advertise };
    let given = layers.all_or_file(Knob::InitialVoters, "meta.initial_voters", raw.initial_voters);
    Ok(MetaConfig {
        secret,
        dir: PathBuf::from(dir.value),
        listen,
        initial_voters: initial_voters(&given, &own, listen)?,
        id: own.id,
        advertise: own.advertise,
    })
}

/// The group as it is first formed; the entry of `own` becomes `own`.
fn initial_voters(
    given: &[Setting],
    own: &InitialVoter,
    listen: SocketAddr,
) -> Result<Vec<InitialVoter>, ConfigError> {
    if given.is_empty() {
        return Ok(Vec::new());
    }
    let own_addr = own.advertise.given(listen);
    let voters: Vec<_> = given
        .iter()
        .map(|entry| entry.parse(|text| initial_voter(text, own, &own_addr)))
        .collect::<Result<_, _>>()?;
    refuse_twins(&voters, listen)?;
    if !voters.contains(own) {
        return Err(conflict(
            format!("voter {} at {own_addr}, which is this one, is not among them", own.id),
            "name it as it is named on the other voters; leave initial_voters out where a \
             running group is to add it",
        ));
    }
    if !GROUP_SIZES.contains(&voters.len()) {
        let reason =
            format!("a group of {} bears no more failures than a smaller one", voters.len());
        return Err(conflict(reason, "name 1, 3 or 5 voters"));
    }
    Ok(voters)
}

fn initial_voter(text: &str, own: &InitialVoter, own_addr: &str) -> Result<InitialVoter, Refusal> {
    let (id, addr) = text.split_once('=').ok_or_else(|| {
        Refusal::new("is not a number and an address", "write ID=HOST:PORT, such as 1=meta-0:9701")
    })?;
    let id = voter_id(id)?;
    if id == own.id && addr == own_addr {
        return Ok(own.clone());
    }
    Ok(InitialVoter { id, advertise: Advertise::Written(address::host_port(addr)?) })
}

fn voter_id(text: &str) -> Result<u64, Refusal> {
    match text.parse() {
        Ok(id @ 1..) => Ok(id),
        _ => Err(Refusal::new("is no voter's number", "write a whole number from 1")),
    }
}

fn refuse_twins(voters: &[InitialVoter], listen: SocketAddr) -> Result<(), ConfigError> {
    for (index, voter) in voters.iter().enumerate() {
        let earlier = &voters[..index];
        if earlier.iter().any(|other| other.id == voter.id) {
            return Err(conflict(
                format!("{} is named twice", voter.id),
                "give each voter a number of its own",
            ));
        }
        if earlier.iter().any(|other| other.advertise == voter.advertise) {
            let addr = voter.advertise.given(listen);
            return Err(conflict(
                format!("{addr} is named twice"),
                "give each voter an address of its own",
            ));
        }
    }
    Ok(())
}

fn conflict(reason: String, fix: &str) -> ConfigError {
    ConfigError::Conflict { at: "meta.initial_voters".into(), reason, fix: fix.into() }
}
