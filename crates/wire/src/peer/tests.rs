//! Every message comes back as it was sent, and nothing that is not one gets in.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use forebay_types::{BLOCK_BYTES, BucketName, ETag, ObjectKey, RuleId, Stamp};
use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::generated::forebay::peer::v1 as proto;
use crate::limits::{BODY_BYTES_MAX, FAILURE_TEXT_BYTES_MAX, HEADER_BYTES_MAX};

fn text(pattern: &'static str) -> impl Strategy<Value = Arc<str>> {
    pattern.prop_map(Into::into)
}

fn name() -> impl Strategy<Value = ObjectName> {
    let names = ("[a-zA-Z0-9_-]{1,63}", "(?s).{1,60}", option::of(text("\\PC{0,32}")));
    (any::<u64>(), names).prop_map(|(rule, (bucket, key, version_id))| ObjectName {
        rule: RuleId(rule),
        bucket: BucketName::new(&bucket).unwrap(),
        key: ObjectKey::new(&key).unwrap(),
        version_id,
    })
}

/// Any value that HTTP allows, spaces around it and bytes that are no UTF-8 included.
fn value() -> impl Strategy<Value = HeaderValue> {
    let byte = prop_oneof![Just(b'\t'), 32u8..127, 128u8..];
    vec(byte, 0..40).prop_map(|bytes| HeaderValue::from_bytes(&bytes).unwrap())
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let name = prop_oneof![Just("content-type".into()), "x-amz-meta-[a-c!#.~]{1,2}"];
    vec((name, value()), 0..9).prop_map(|pairs: Vec<(String, _)>| {
        let parse = |(name, value): (String, _)| (name.parse::<HeaderName>().unwrap(), value);
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.into_iter().map(parse) {
            headers.append(name, value);
        }
        headers
    })
}

fn head() -> impl Strategy<Value = ObjectHead> {
    let texts = ("\"[!-~&&[^\"]]{0,40}\"", text("\\PC{0,32}"), option::of(text("\\PC{0,32}")));
    (1..=u64::MAX, texts, headers()).prop_map(
        |(size, (etag, last_modified, version_id), headers)| {
            let stamp = Stamp { etag: ETag::new(&etag), size, last_modified, version_id };
            ObjectHead { stamp, headers }
        },
    )
}

/// A version, and a range within one block of it.
fn piece() -> impl Strategy<Value = (ObjectHead, ByteRange)> {
    (head(), any::<u64>(), any::<u64>()).prop_map(|(head, start, len)| {
        let start = start % head.stamp.size;
        let room = (BLOCK_BYTES - start % BLOCK_BYTES).min(head.stamp.size - start);
        let range = ByteRange::new(start, start + 1 + len % room).unwrap();
        (head, range)
    })
}

fn range_ask() -> impl Strategy<Value = RangeAsk> {
    prop_oneof![
        Just(RangeAsk::Whole),
        any::<(u64, u64)>().prop_map(|(first, last)| RangeAsk::FromTo { first, last }),
        any::<u64>().prop_map(|first| RangeAsk::From { first }),
        any::<u64>().prop_map(|len| RangeAsk::Suffix { len }),
    ]
}

fn time() -> impl Strategy<Value = Duration> {
    any::<u64>().prop_map(Duration::from_nanos)
}

fn freshness() -> impl Strategy<Value = Freshness> {
    let bounded = time().prop_map(Freshness::Bounded);
    prop_oneof![Just(Freshness::Immutable), bounded, Just(Freshness::Strict)]
}

fn vouching() -> impl Strategy<Value = Vouching> {
    let not_yet = time().prop_map(Vouching::NotYet);
    prop_oneof![Just(Vouching::Yes), not_yet, Just(Vouching::Lapsed), Just(Vouching::NotMine)]
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        (100u16..1000, "[A-Za-z]{0,20}", ".{0,40}")
            .prop_map(|(status, code, message)| Failure::Refused { status, code, message }),
        ".{0,40}".prop_map(Failure::Uncacheable),
        Just(Failure::Moved),
        Just(Failure::SlowDown),
        ".{0,40}".prop_map(Failure::OriginUnavailable),
        any::<u64>().prop_map(|epoch| Failure::NotOwner(Epoch(epoch))),
        Just(Failure::NoSuchRule),
        ".{0,40}".prop_map(Failure::Internal),
    ]
}

fn open_ask() -> impl Strategy<Value = OpenAsk> {
    (any::<u64>(), name(), freshness(), any::<bool>(), option::of(range_ask())).prop_map(
        |(epoch, name, freshness, anew, range)| OpenAsk {
            epoch: Epoch(epoch),
            name,
            freshness,
            anew,
            range,
        },
    )
}

fn open_answer() -> impl Strategy<Value = OpenAnswer> {
    let flags = any::<(u64, bool, bool, bool)>();
    (flags, option::of(time()), piece()).prop_map(
        |((epoch, asked, hit, has_body), age, (head, range))| {
            let range = has_body.then_some(range);
            OpenAnswer { epoch: Epoch(epoch), head, asked, age, range, hit }
        },
    )
}

fn read_ask() -> impl Strategy<Value = ReadAsk> {
    (any::<u64>(), name(), piece()).prop_map(|(epoch, name, (head, range))| ReadAsk {
        epoch: Epoch(epoch),
        name,
        stamp: head.stamp,
        range,
    })
}

fn range() -> impl Strategy<Value = ByteRange> {
    any::<(u64, u64)>().prop_filter_map("empty", |(start, end)| ByteRange::new(start, end))
}

/// Debug shows every field: `ObjectHead` cannot be compared.
fn same<T: Debug>(one: &T, two: &T) -> Result<(), TestCaseError> {
    prop_assert_eq!(format!("{one:?}"), format!("{two:?}"));
    Ok(())
}

fn comes_back_from_bytes<T: Message + Debug>(message: &T) -> Result<(), TestCaseError> {
    same(message, &T::decode(&message.encode()).unwrap())
}

fn comes_back<T: InHeader + Debug>(message: &T) -> Result<(), TestCaseError> {
    comes_back_from_bytes(message)?;
    let header = message.to_header().unwrap();
    prop_assert!(
        header
            .to_str()
            .unwrap()
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    );
    same(message, &T::from_header(&header).unwrap())
}

proptest! {
    #[test]
    fn every_message_comes_back_as_it_was_sent(
        open_ask in open_ask(),
        open_answer in open_answer(),
        read_ask in read_ask(),
        (epoch, flag) in any::<(u64, bool)>(),
        range in option::of(range()),
        failure in failure(),
    ) {
        let epoch = Epoch(epoch);
        let ReadAsk { name, stamp, .. } = read_ask.clone();
        let warm_ask = WarmAsk {
            epoch,
            name: name.clone(),
            stamp: stamp.clone(),
            range: read_ask.range,
            wait: flag,
        };
        comes_back(&RecallAsk { name: name.clone() })?;
        comes_back(&RecallAnswer { head: flag.then(|| open_answer.head.clone()) })?;
        comes_back(&PeekAsk { name, stamp, range: read_ask.range })?;
        comes_back(&warm_ask)?;
        comes_back(&read_ask)?;
        comes_back(&open_ask)?;
        comes_back(&open_answer)?;
        comes_back(&ReadAnswer { epoch, hit: flag })?;
        comes_back(&PeekAnswer { range })?;
        comes_back(&failure)?;
    }

    #[test]
    fn forgetting_comes_back_as_it_was_sent(
        epoch in any::<u64>(),
        names in vec(name(), 0..20),
        vouching in vec(vouching(), 0..20),
    ) {
        comes_back_from_bytes(&ForgetAsk { names })?;
        comes_back_from_bytes(&ForgetAnswer { epoch: Epoch(epoch), vouching })?;
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in vec(any::<u8>(), 0..300)) {
        read_as_everything(&bytes);
    }

    /// Close to a message, so that the bytes get as far as the checks.
    #[test]
    fn no_change_to_a_message_makes_a_reader_panic(
        ask in read_ask(),
        answer in open_answer(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for mut bytes in [ask.encode(), answer.encode()] {
            for (at, byte) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            read_as_everything(&bytes);
        }
    }
}

fn read_as_everything(bytes: &[u8]) {
    fn read<T: InHeader>(bytes: &[u8]) {
        let _ = T::decode(bytes);
        if let Ok(value) = HeaderValue::from_bytes(bytes) {
            let _ = T::from_header(&value);
        }
    }
    read::<OpenAsk>(bytes);
    read::<OpenAnswer>(bytes);
    read::<ReadAsk>(bytes);
    read::<ReadAnswer>(bytes);
    read::<PeekAsk>(bytes);
    read::<PeekAnswer>(bytes);
    read::<RecallAsk>(bytes);
    read::<RecallAnswer>(bytes);
    read::<WarmAsk>(bytes);
    read::<Failure>(bytes);
    let _ = ForgetAsk::decode(bytes);
    let _ = ForgetAnswer::decode(bytes);
}

/// A sound ask in the generated form, for breaking.
fn sound() -> proto::ReadAsk {
    proto::ReadAsk {
        epoch: 1,
        name: Some(proto::Name {
            rule: 1,
            bucket: "train".into(),
            key: "shard-7".into(),
            version_id: None,
        }),
        stamp: Some(stamp()),
        range: Some(proto::Range { start: BLOCK_BYTES, end: 2 * BLOCK_BYTES }),
    }
}

fn stamp() -> proto::Stamp {
    proto::Stamp {
        etag: "\"x\"".into(),
        size: 3 * BLOCK_BYTES,
        last_modified: "now".into(),
        version_id: None,
    }
}

/// A sound answer with these lines of headers.
fn recalled(headers: &'static [u8]) -> Vec<u8> {
    let head = proto::Head { stamp: Some(stamp()), headers: Bytes::from_static(headers) };
    proto::RecallAnswer { head: Some(head) }.encode_to_vec()
}

fn reason(proto: &impl prost::Message) -> String {
    ReadAsk::decode(&proto.encode_to_vec()).unwrap_err().reason
}

#[test]
fn an_ask_that_no_sound_peer_sends_is_refused_with_the_reason() {
    type Breach = fn(&mut proto::ReadAsk);
    let breaches: [(&str, Breach); 10] = [
        ("no name", |ask| ask.name = None),
        ("no stamp", |ask| ask.stamp = None),
        ("no range", |ask| ask.range = None),
        ("bucket name", |ask| ask.name.as_mut().unwrap().bucket = "../train".into()),
        ("key is empty", |ask| ask.name.as_mut().unwrap().key.clear()),
        ("key has 1025", |ask| ask.name.as_mut().unwrap().key = "k".repeat(1025)),
        ("names no version", |ask| ask.stamp.as_mut().unwrap().etag = "W/\"x\"".into()),
        ("is empty", |ask| ask.range = Some(proto::Range { start: 5, end: 5 })),
        ("bytes 8388608..16777216 of 9", |ask| ask.stamp.as_mut().unwrap().size = 9),
        ("are of several blocks", |ask| ask.range.as_mut().unwrap().end += 1),
    ];
    assert!(ReadAsk::decode(&sound().encode_to_vec()).is_ok());
    for (why, breach) in breaches {
        let mut broken = sound();
        breach(&mut broken);
        assert!(reason(&broken).contains(why), "{}", reason(&broken));
    }
}

#[test]
fn headers_that_no_sound_peer_sends_are_refused_with_the_reason() {
    for (why, lines) in [("header name", &b"a b:1\n"[..]), ("cut off", b"a:1\nb:")] {
        let error = RecallAnswer::decode(&recalled(lines)).unwrap_err();
        assert!(error.reason.contains(why), "{}", error.reason);
    }
}

#[test]
fn headers_keep_their_repeats_their_spaces_and_their_bytes() {
    let answer = RecallAnswer::decode(&recalled(b"etag:\"x\"\nx-a:1\nx-a: \xff: 2\n")).unwrap();
    let headers = answer.head.unwrap().headers;
    let values: Vec<_> = headers.get_all("x-a").iter().map(HeaderValue::as_bytes).collect();
    assert_eq!(values, [&b"1"[..], b" \xff: 2"]);
}

#[test]
fn a_kind_that_this_release_does_not_know_is_refused() {
    // Field 15 of a message that has exactly one of its fields.
    let unknown = [0x78, 1];
    assert_eq!(Failure::decode(&unknown).unwrap_err().reason, "a failure of no known kind");
    let answer = proto::ForgetAnswer { epoch: 1, vouching: vec![proto::Vouching::default()] };
    let error = ForgetAnswer::decode(&answer.encode_to_vec()).unwrap_err();
    assert_eq!(error.to_string(), "not a valid ForgetAnswer: vouching of no known kind");
}

#[test]
fn a_status_that_is_none_is_refused() {
    use proto::failure::{Failure as Kind, Refused};
    for status in [0, 99, 1000, 65_536 + 404] {
        let refused = Refused { status, code: String::new(), message: String::new() };
        let failure = proto::Failure { failure: Some(Kind::Refused(refused)) };
        assert!(Failure::decode(&failure.encode_to_vec()).is_err(), "{status}");
    }
}

#[test]
fn the_longest_forget_fits_into_its_body_and_one_name_more_is_refused() {
    let name = ObjectName {
        rule: RuleId(u64::MAX),
        bucket: BucketName::new(&"b".repeat(255)).unwrap(),
        key: ObjectKey::new(&"k".repeat(1024)).unwrap(),
        version_id: Some("v".repeat(1024).into()),
    };
    let mut ask = ForgetAsk { names: vec![name.clone(); FORGET_NAMES_MAX] };
    let bytes = ask.encode();
    assert!(bytes.len() <= BODY_BYTES_MAX, "{}", bytes.len());
    assert_eq!(ForgetAsk::decode(&bytes).unwrap(), ask);
    ask.names = vec![ObjectName { version_id: None, ..name }; FORGET_NAMES_MAX + 1];
    assert_eq!(ForgetAsk::decode(&ask.encode()).unwrap_err().reason, "1001 names");
    let vouching = vec![Vouching::NotYet(Duration::MAX); FORGET_NAMES_MAX];
    let answer = ForgetAnswer { epoch: Epoch(u64::MAX), vouching };
    assert!(answer.encode().len() <= ForgetAnswer::BYTES_MAX);
}

#[test]
fn a_message_too_long_for_a_header_is_refused_by_both_sides() {
    let mut answer = RecallAnswer::decode(&recalled(b"")).unwrap();
    let mut insert = |name: &'static str, bytes: usize| {
        let headers = &mut answer.head.as_mut().unwrap().headers;
        headers.insert(name, "v".repeat(bytes).parse().unwrap());
        answer.clone()
    };
    let longest = insert("x-amz-meta-a", HEADER_BYTES_MAX / 4 * 3 - 300);
    let header = longest.to_header().unwrap();
    assert!(header.len() <= HEADER_BYTES_MAX);
    assert!(RecallAnswer::from_header(&header).is_ok());

    let too_long = insert("x-amz-meta-b", 300);
    assert!(too_long.to_header().unwrap_err().reason.contains("do not fit into a header"));
    assert!(RecallAnswer::decode(&too_long.encode()).is_err());
    let long = HeaderValue::from_str(&"A".repeat(HEADER_BYTES_MAX + 1)).unwrap();
    assert!(RecallAnswer::from_header(&long).is_err());
}

#[test]
fn a_failure_fits_into_a_header_whatever_the_origin_said() {
    let long = "\u{1f600}".repeat(FAILURE_TEXT_BYTES_MAX);
    let failure = Failure::Refused { status: 403, code: long.clone(), message: long.clone() };
    let Failure::Refused { code, message, .. } =
        Failure::from_header(&failure.to_header().unwrap()).unwrap()
    else {
        panic!("a refusal stays one");
    };
    assert_eq!((code.len(), message.len()), (FAILURE_TEXT_BYTES_MAX, FAILURE_TEXT_BYTES_MAX));
    assert!(long.starts_with(&message));
}

#[test]
fn a_time_that_no_one_waits_for_is_said_as_the_longest_one() {
    let ask = OpenAsk::decode(
        &OpenAsk {
            epoch: Epoch(1),
            name: ReadAsk::decode(&sound().encode_to_vec()).unwrap().name,
            freshness: Freshness::Bounded(Duration::MAX),
            anew: false,
            range: None,
        }
        .encode(),
    );
    assert_eq!(ask.unwrap().freshness, Freshness::Bounded(Duration::from_nanos(u64::MAX)));
}
