//! The answers, as generated messages.

use std::time::Duration;

use forebay_types::{ByteRange, Epoch};
use http::StatusCode;

use super::message::{Form, Invalid, Short, Whole, required};
use super::parts::{check_piece, nanos};
use super::{
    FORGET_NAMES_MAX, Failure, ForgetAnswer, OpenAnswer, PeekAnswer, ReadAnswer, RecallAnswer,
    Vouching,
};
use crate::generated::forebay::peer::v1 as proto;
use crate::limits::FAILURE_TEXT_BYTES_MAX;

impl Form for OpenAnswer {
    type Proto = proto::OpenAnswer;

    fn to_proto(&self) -> proto::OpenAnswer {
        proto::OpenAnswer {
            epoch: self.epoch.0,
            head: Some(self.head.to_proto()),
            asked: self.asked,
            age_ns: self.age.map(nanos),
            range: self.range.as_ref().map(Form::to_proto),
            hit: self.hit,
        }
    }

    fn from_proto(answer: proto::OpenAnswer) -> Result<Self, Invalid> {
        let answer = Self {
            epoch: Epoch(answer.epoch),
            head: required(answer.head, "head")?,
            asked: answer.asked,
            age: answer.age_ns.map(Duration::from_nanos),
            range: answer.range.map(ByteRange::from_proto).transpose()?,
            hit: answer.hit,
        };
        if let Some(range) = answer.range {
            check_piece(range, &answer.head.stamp)?;
        }
        Ok(answer)
    }
}

impl Whole for OpenAnswer {
    const NAME: &'static str = "OpenAnswer";
}

impl Short for OpenAnswer {}

impl Form for ReadAnswer {
    type Proto = proto::ReadAnswer;

    fn to_proto(&self) -> proto::ReadAnswer {
        proto::ReadAnswer { epoch: self.epoch.0, hit: self.hit }
    }

    fn from_proto(answer: proto::ReadAnswer) -> Result<Self, Invalid> {
        Ok(Self { epoch: Epoch(answer.epoch), hit: answer.hit })
    }
}

impl Whole for ReadAnswer {
    const NAME: &'static str = "ReadAnswer";
}

impl Short for ReadAnswer {}

impl Form for PeekAnswer {
    type Proto = proto::PeekAnswer;

    fn to_proto(&self) -> proto::PeekAnswer {
        proto::PeekAnswer { range: self.range.as_ref().map(Form::to_proto) }
    }

    fn from_proto(answer: proto::PeekAnswer) -> Result<Self, Invalid> {
        Ok(Self { range: answer.range.map(Form::from_proto).transpose()? })
    }
}

impl Whole for PeekAnswer {
    const NAME: &'static str = "PeekAnswer";
}

impl Short for PeekAnswer {}

impl Form for RecallAnswer {
    type Proto = proto::RecallAnswer;

    fn to_proto(&self) -> proto::RecallAnswer {
        proto::RecallAnswer { head: self.head.as_ref().map(Form::to_proto) }
    }

    fn from_proto(answer: proto::RecallAnswer) -> Result<Self, Invalid> {
        Ok(Self { head: answer.head.map(Form::from_proto).transpose()? })
    }
}

impl Whole for RecallAnswer {
    const NAME: &'static str = "RecallAnswer";
}

impl Short for RecallAnswer {}

impl Form for ForgetAnswer {
    type Proto = proto::ForgetAnswer;

    fn to_proto(&self) -> proto::ForgetAnswer {
        proto::ForgetAnswer {
            epoch: self.epoch.0,
            vouching: self.vouching.iter().map(Form::to_proto).collect(),
        }
    }

    fn from_proto(answer: proto::ForgetAnswer) -> Result<Self, Invalid> {
        if answer.vouching.len() > FORGET_NAMES_MAX {
            return Err(Invalid::because(format_args!("of {} names", answer.vouching.len())));
        }
        let vouching = answer.vouching.into_iter().map(Vouching::from_proto);
        Ok(Self { epoch: Epoch(answer.epoch), vouching: vouching.collect::<Result<_, _>>()? })
    }
}

// Not `Short`: it travels as its ask does, in a body. It would fit into a header.
impl Whole for ForgetAnswer {
    const NAME: &'static str = "ForgetAnswer";
}

impl Form for Failure {
    type Proto = proto::Failure;

    fn to_proto(&self) -> proto::Failure {
        use proto::failure::{Failure as Kind, Moved, NoSuchRule, Refused, SlowDown};
        let kind = match self {
            Self::Refused { status, code, message } => Kind::Refused(Refused {
                status: u32::from(*status),
                code: clip(code),
                message: clip(message),
            }),
            Self::Uncacheable(why) => Kind::Uncacheable(clip(why)),
            Self::Moved => Kind::Moved(Moved {}),
            Self::SlowDown => Kind::SlowDown(SlowDown {}),
            Self::OriginUnavailable(why) => Kind::OriginUnavailable(clip(why)),
            Self::NotOwner(epoch) => Kind::NotOwner(epoch.0),
            Self::NoSuchRule => Kind::NoSuchRule(NoSuchRule {}),
            Self::Internal(why) => Kind::Internal(clip(why)),
        };
        proto::Failure { failure: Some(kind) }
    }

    fn from_proto(failure: proto::Failure) -> Result<Self, Invalid> {
        use proto::failure::{Failure as Kind, Moved, NoSuchRule, SlowDown};
        Ok(match failure.failure {
            Some(Kind::Refused(refused)) => refusal(refused)?,
            Some(Kind::Uncacheable(why)) => Self::Uncacheable(why),
            Some(Kind::Moved(Moved {})) => Self::Moved,
            Some(Kind::SlowDown(SlowDown {})) => Self::SlowDown,
            Some(Kind::OriginUnavailable(why)) => Self::OriginUnavailable(why),
            Some(Kind::NotOwner(epoch)) => Self::NotOwner(Epoch(epoch)),
            Some(Kind::NoSuchRule(NoSuchRule {})) => Self::NoSuchRule,
            Some(Kind::Internal(why)) => Self::Internal(why),
            None => return Err(Invalid::because("a failure of no known kind")),
        })
    }
}

impl Whole for Failure {
    const NAME: &'static str = "Failure";
}

impl Short for Failure {}

fn refusal(refused: proto::failure::Refused) -> Result<Failure, Invalid> {
    let status = StatusCode::from_u16(u16::try_from(refused.status)?)?.as_u16();
    Ok(Failure::Refused { status, code: refused.code, message: refused.message })
}

/// The beginning of a text, so that a failure fits into a header whatever an origin says.
fn clip(text: &str) -> String {
    text[..text.floor_char_boundary(FAILURE_TEXT_BYTES_MAX)].into()
}
