//! What workers ask each other, and the voters: calls into the other's cache, with messages in
//! between that take time, get lost and come twice.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{
    Cache, Fence, NoVoters, OriginFailure, OwnerBody, Peek, PeerBlocks, PeerBody, PeerFailure,
    PeerFrames, PeerOpenAsk, PeerOpened, Place, Placement, ReadError, Recalled, Vouching,
};
use forebay_rt::Clock;
use forebay_telemetry::ReadCtx;
use forebay_types::{BlockIndex, ByteRange, ErrorCode, ObjectName, Stamp, WorkerId};
use futures_util::future::{Either, select};
use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::oneshot;

use super::super::ctx;
use super::net::Node;
use super::process::Process;
use super::voters::{Broken, LEASE};
use super::{Garble, Shared};

/// How long a worker waits for one that shows no sign of life.
pub const PEER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a worker waits for the voters.
const VOTERS_TIMEOUT: Duration = Duration::from_secs(2);

/// What a worker answers, and the run of its process that does.
type Called<T> = Result<(T, Arc<Process>), PeerFailure>;

/// Tries of a fence that finds the epoch gone on.
const FENCE_TRIES: u32 = 3;

impl Process {
    /// Has another worker do something. It may do it late, twice, or without our hearing of it.
    async fn call<T, S, F>(&self, to: WorkerId, serve: S) -> Called<T>
    where
        T: Send + 'static,
        S: Fn(Arc<Process>, Arc<Cache>) -> F + Send + Sync + Clone + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.live().await;
        let (sender, receiver) = oneshot::channel();
        let me = self.this.upgrade().expect("a process that calls");
        if self.shared.net.twice() {
            forebay_rt::spawn(me.clone().deliver(to, serve.clone(), None));
        }
        forebay_rt::spawn(me.deliver(to, serve, Some(sender)));
        let given_up = self.no_sign_of_life(to);
        let answer = match select(receiver, std::pin::pin!(given_up)).await {
            Either::Left((Ok(answer), _)) => answer,
            Either::Left((Err(_), _)) => {
                self.shared.net.clock.sleep(PEER_TIMEOUT).await;
                Err(PeerFailure::Unreachable("lost".into()))
            }
            Either::Right(((), _)) => Err(PeerFailure::Unreachable("no sign of life".into())),
        };
        self.live().await;
        answer
    }

    async fn deliver<T, S, F>(
        self: Arc<Self>,
        to: WorkerId,
        serve: S,
        answer: Option<oneshot::Sender<Called<T>>>,
    ) where
        S: Fn(Arc<Process>, Arc<Cache>) -> F,
        F: Future<Output = T>,
    {
        let (net, there) = (&self.shared.net, Node::Worker(to.0 as usize));
        if !net.cross(self.node(), there).await {
            return;
        }
        let result = match self.shared.worker(to.0 as usize) {
            None => Err(PeerFailure::Gone),
            Some((callee, cache)) => {
                if net.gossips() {
                    callee.hear(&self.view());
                }
                let serving = std::pin::pin!(serve(callee.clone(), cache));
                match select(serving, std::pin::pin!(callee.died())).await {
                    Either::Left((result, _)) if !callee.is_dead() => {
                        if net.gossips() {
                            self.hear(&callee.view());
                        }
                        Ok((result, callee.clone()))
                    }
                    _ => Err(PeerFailure::Unreachable("it died".into())),
                }
            }
        };
        if net.cross(there, self.node()).await
            && let Some(answer) = answer
        {
            let _ = answer.send(result);
        }
    }

    /// Ends when the other worker has not been there for a while.
    async fn no_sign_of_life(&self, to: WorkerId) {
        let mut silent = Duration::ZERO;
        while silent < PEER_TIMEOUT {
            self.shared.net.clock.sleep(PEER_TIMEOUT / 4).await;
            silent += PEER_TIMEOUT / 4;
            if self.is_reachable(to) {
                silent = Duration::ZERO;
            }
        }
    }

    fn is_reachable(&self, to: WorkerId) -> bool {
        let there = Node::Worker(to.0 as usize);
        self.shared.worker(to.0 as usize).is_some() && self.shared.net.is_up(self.node(), there)
    }

    /// A body that breaks off when the connection does.
    fn receive(
        &self,
        sender: &Arc<Process>,
        frames: impl Stream<Item = Result<Bytes, ReadError>> + Send + 'static,
    ) -> Box<dyn PeerFrames> {
        let from = WorkerId(sender.me as u64);
        let state = (self.this.clone(), Arc::downgrade(sender), frames.boxed());
        let frames = stream::unfold(state, move |(me, sender, mut frames)| async move {
            let Some(receiver) = me.upgrade() else { return std::future::pending().await };
            let connected = sender.upgrade().filter(|it| !it.is_dead());
            let frame = match connected {
                Some(sender) if receiver.is_reachable(from) => {
                    let broken =
                        select(Box::pin(sender.died()), Box::pin(receiver.no_sign_of_life(from)));
                    match select(frames.next(), broken).await {
                        Either::Left((frame, _)) => {
                            frame.map(|frame| frame.map_err(|error| error.to_string()))
                        }
                        Either::Right(_) => Some(Err("no sign of life".into())),
                    }
                }
                _ => {
                    receiver.shared.net.clock.sleep(PEER_TIMEOUT / 2).await;
                    Some(Err("the connection broke".to_owned()))
                }
            };
            receiver.live().await;
            Some((frame?.map_err(PeerFailure::Unreachable), (me, sender, frames)))
        });
        Box::new(frames.boxed())
    }

    fn body(&self, from: &Arc<Process>, body: OwnerBody) -> PeerBody {
        let OwnerBody { range, hit, reader } = body;
        self.garbled(PeerBody { range, hit, frames: self.receive(from, reader) })
    }

    /// What arrives of a body.
    fn garbled(&self, body: PeerBody) -> PeerBody {
        let PeerBody { range, hit, frames } = body;
        match *self.shared.garble.lock() {
            None => PeerBody { range, hit, frames },
            Some(Garble::Short) => {
                PeerBody { range, hit, frames: Box::new(frames.take(3).boxed()) }
            }
            Some(Garble::Long) => {
                let more = Bytes::from(vec![0; range.len() as usize]);
                let frames = frames.take(3).chain(stream::once(async { Ok(more) }));
                PeerBody { range, hit, frames: Box::new(frames.boxed()) }
            }
            Some(Garble::Elsewhere) => {
                let range = ByteRange::new(range.start() + 1, range.end()).unwrap_or(range);
                let frames = frames
                    .enumerate()
                    .map(|(at, frame)| frame.map(|frame| frame.slice(usize::from(at == 0)..)));
                PeerBody { range, hit, frames: Box::new(frames.boxed()) }
            }
        }
    }
}

#[async_trait]
impl PeerBlocks for Process {
    async fn open(
        &self,
        _: &ReadCtx,
        worker: WorkerId,
        ask: PeerOpenAsk,
    ) -> Result<PeerOpened, PeerFailure> {
        let opened = self.call(worker, move |_, cache| {
            let ask = ask.clone();
            async move { cache.owner().open(&ctx(), ask).await }
        });
        let (opened, callee) = opened.await?;
        let opened = opened.map_err(failure)?;
        Ok(PeerOpened {
            head: (*opened.head).clone(),
            asked: opened.asked,
            age: opened.age,
            body: opened.body.map(|body| self.body(&callee, body)),
        })
    }

    async fn read(
        &self,
        _: &ReadCtx,
        worker: WorkerId,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Result<PeerBody, PeerFailure> {
        let (epoch, name, stamp) = (self.view().epoch, name.clone(), stamp.clone());
        let body = self.call(worker, move |callee, cache| {
            let (name, stamp) = (name.clone(), stamp.clone());
            async move {
                let owners = callee.owners(&name, BlockIndex::of(range.start()));
                let is_mine = owners.contains(&Place::Here);
                if callee.view().epoch > epoch
                    && !is_mine
                    && !cache.owner().holds(&name, &stamp, range)
                {
                    return Err(PeerFailure::NotOwner);
                }
                cache.owner().read(&ctx(), &name, &stamp, range).await.map_err(failure)
            }
        });
        let (body, callee) = body.await?;
        Ok(self.body(&callee, body?))
    }

    fn warm(&self, worker: WorkerId, name: &ObjectName, stamp: &Stamp, range: ByteRange) {
        let (name, stamp) = (name.clone(), stamp.clone());
        let Some(me) = self.this.upgrade().filter(|me| !me.is_dead()) else { return };
        forebay_rt::spawn(async move {
            let warmed = me.call(worker, move |_, cache| {
                let (name, stamp) = (name.clone(), stamp.clone());
                async move { cache.owner().warm(&ctx(), &name, &stamp, range) }
            });
            let _ = warmed.await;
        });
    }

    async fn forget(
        &self,
        worker: WorkerId,
        names: &[ObjectName],
    ) -> Result<Vec<Vouching>, PeerFailure> {
        self.shared.told.lock().push(names.len());
        let names = names.to_vec();
        let broken = self.shared.broken;
        let told = self.call(worker, move |callee, cache| {
            let names = names.clone();
            async move {
                if broken == Broken::Forgetful {
                    return names.iter().map(|name| callee.vouching(name)).collect();
                }
                cache.owner().forget(&ctx(), &names).await
            }
        });
        told.await.map(|(vouching, _)| vouching)
    }
}

#[async_trait]
impl Peek for Process {
    async fn recall(&self, worker: WorkerId, name: &ObjectName) -> Recalled {
        let name = name.clone();
        let remembered = self.call(worker, move |_, cache| {
            let name = name.clone();
            async move { cache.shelf().recall(&name).await }
        });
        match remembered.await {
            Ok((Some(head), _)) => Recalled::Version(head),
            Ok((None, _)) => Recalled::Nothing,
            Err(_) => Recalled::NoAnswer,
        }
    }

    async fn peek(
        &self,
        worker: WorkerId,
        name: &ObjectName,
        stamp: &Stamp,
        range: ByteRange,
    ) -> Option<PeerBody> {
        let id = name.at(stamp.clone());
        let found = self.call(worker, move |_, cache| {
            let id = id.clone();
            async move { cache.shelf().peek(&id, range).await }
        });
        let (found, callee) = found.await.ok()?;
        let (range, frames) = found?;
        Some(self.garbled(PeerBody { range, hit: true, frames: self.receive(&callee, frames) }))
    }
}

#[async_trait]
impl Fence for Process {
    async fn fence(&self) -> Result<(), NoVoters> {
        let Shared { net, voters, broken, .. } = &*self.shared;
        for _ in 0..FENCE_TRIES {
            self.live().await;
            if !net.cross(self.node(), Node::Voters).await {
                break;
            }
            let began = voters.begin(net.clock.now(), self.view().epoch, None);
            let view = voters.view();
            if !net.cross(Node::Voters, self.node()).await {
                break;
            }
            self.hear(&view);
            // An epoch that others have begun may be older than the write.
            if began {
                if *broken != Broken::HastyFence {
                    net.clock.sleep(LEASE).await;
                }
                self.live().await;
                return Ok(());
            }
        }
        net.clock.sleep(VOTERS_TIMEOUT).await;
        self.live().await;
        Err(NoVoters)
    }
}

/// What a worker's answer means to the one that asked.
fn failure(error: ReadError) -> PeerFailure {
    match error {
        ReadError::Refused(reply) => PeerFailure::Origin(OriginFailure::Refused(reply)),
        ReadError::PassThrough(why) => PeerFailure::Origin(OriginFailure::Uncacheable(why)),
        ReadError::Unannounced => PeerFailure::Unreachable("it does not write".into()),
        ReadError::Failed { code, detail } => match code {
            ErrorCode::VersionMoved => PeerFailure::Origin(OriginFailure::Moved),
            ErrorCode::SlowDown => PeerFailure::Origin(OriginFailure::SlowDown),
            ErrorCode::OriginUnavailable => PeerFailure::OriginUnavailable(detail),
            _ => PeerFailure::Unreachable(detail),
        },
    }
}
