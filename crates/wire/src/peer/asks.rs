//! The asks, as generated messages.

use forebay_types::{Epoch, ObjectName};

use super::message::{Form, Invalid, Short, Whole, required};
use super::parts::check_piece;
use super::{FORGET_NAMES_MAX, ForgetAsk, OpenAsk, PeekAsk, ReadAsk, RecallAsk, WarmAsk};
use crate::generated::forebay::peer::v1 as proto;
use crate::limits::BODY_BYTES_MAX;

impl Form for OpenAsk {
    type Proto = proto::OpenAsk;

    fn to_proto(&self) -> proto::OpenAsk {
        proto::OpenAsk {
            epoch: self.epoch.0,
            name: Some(self.name.to_proto()),
            freshness: Some(self.freshness.to_proto()),
            anew: self.anew,
            range: self.range.as_ref().map(Form::to_proto),
        }
    }

    fn from_proto(ask: proto::OpenAsk) -> Result<Self, Invalid> {
        Ok(Self {
            epoch: Epoch(ask.epoch),
            name: required(ask.name, "name")?,
            freshness: required(ask.freshness, "freshness")?,
            anew: ask.anew,
            range: ask.range.map(Form::from_proto).transpose()?,
        })
    }
}

impl Whole for OpenAsk {
    const NAME: &'static str = "OpenAsk";
}

impl Short for OpenAsk {}

impl Form for ReadAsk {
    type Proto = proto::ReadAsk;

    fn to_proto(&self) -> proto::ReadAsk {
        proto::ReadAsk {
            epoch: self.epoch.0,
            name: Some(self.name.to_proto()),
            stamp: Some(self.stamp.to_proto()),
            range: Some(self.range.to_proto()),
        }
    }

    fn from_proto(ask: proto::ReadAsk) -> Result<Self, Invalid> {
        let ask = Self {
            epoch: Epoch(ask.epoch),
            name: required(ask.name, "name")?,
            stamp: required(ask.stamp, "stamp")?,
            range: required(ask.range, "range")?,
        };
        check_piece(ask.range, &ask.stamp)?;
        Ok(ask)
    }
}

impl Whole for ReadAsk {
    const NAME: &'static str = "ReadAsk";
}

impl Short for ReadAsk {}

impl Form for PeekAsk {
    type Proto = proto::PeekAsk;

    fn to_proto(&self) -> proto::PeekAsk {
        proto::PeekAsk {
            name: Some(self.name.to_proto()),
            stamp: Some(self.stamp.to_proto()),
            range: Some(self.range.to_proto()),
        }
    }

    fn from_proto(ask: proto::PeekAsk) -> Result<Self, Invalid> {
        let ask = Self {
            name: required(ask.name, "name")?,
            stamp: required(ask.stamp, "stamp")?,
            range: required(ask.range, "range")?,
        };
        check_piece(ask.range, &ask.stamp)?;
        Ok(ask)
    }
}

impl Whole for PeekAsk {
    const NAME: &'static str = "PeekAsk";
}

impl Short for PeekAsk {}

impl Form for RecallAsk {
    type Proto = proto::RecallAsk;

    fn to_proto(&self) -> proto::RecallAsk {
        proto::RecallAsk { name: Some(self.name.to_proto()) }
    }

    fn from_proto(ask: proto::RecallAsk) -> Result<Self, Invalid> {
        Ok(Self { name: required(ask.name, "name")? })
    }
}

impl Whole for RecallAsk {
    const NAME: &'static str = "RecallAsk";
}

impl Short for RecallAsk {}

impl Form for WarmAsk {
    type Proto = proto::WarmAsk;

    fn to_proto(&self) -> proto::WarmAsk {
        proto::WarmAsk {
            epoch: self.epoch.0,
            name: Some(self.name.to_proto()),
            stamp: Some(self.stamp.to_proto()),
            range: Some(self.range.to_proto()),
            wait: self.wait,
        }
    }

    fn from_proto(ask: proto::WarmAsk) -> Result<Self, Invalid> {
        let ask = Self {
            epoch: Epoch(ask.epoch),
            name: required(ask.name, "name")?,
            stamp: required(ask.stamp, "stamp")?,
            range: required(ask.range, "range")?,
            wait: ask.wait,
        };
        check_piece(ask.range, &ask.stamp)?;
        Ok(ask)
    }
}

impl Whole for WarmAsk {
    const NAME: &'static str = "WarmAsk";
}

impl Short for WarmAsk {}

impl Form for ForgetAsk {
    type Proto = proto::ForgetAsk;

    fn to_proto(&self) -> proto::ForgetAsk {
        proto::ForgetAsk { names: self.names.iter().map(Form::to_proto).collect() }
    }

    fn from_proto(ask: proto::ForgetAsk) -> Result<Self, Invalid> {
        if ask.names.len() > FORGET_NAMES_MAX {
            return Err(Invalid::because(format_args!("{} names", ask.names.len())));
        }
        let names = ask.names.into_iter().map(ObjectName::from_proto);
        Ok(Self { names: names.collect::<Result<_, _>>()? })
    }
}

impl Whole for ForgetAsk {
    const NAME: &'static str = "ForgetAsk";
    const BYTES_MAX: usize = BODY_BYTES_MAX;
}
