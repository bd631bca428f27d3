//! A head means the same when it is written down for the origin.

use std::fmt;

use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Uri};

use crate::address::Domains;
use crate::conditions::conditions;
use crate::overrides::overrides;
use crate::query::Query;
use crate::range::range_ask;
use crate::route::{self, Call};

/// Checks a head as an open endpoint takes it.
pub(crate) fn check(text: &str) {
    let Some((parts, ())) =
        Head::parse(text).and_then(|head| head.request(())).map(Request::into_parts)
    else {
        return;
    };
    let Ok(query) = Query::parse(parts.uri.query()) else { return };
    if let Some(meaning) = Meaning::of(parts, query) {
        meaning.check_written();
    }
}

/// A request line without its version, and headers; as text, a line each.
pub(crate) struct Head {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The head of a request whose headers are text.
    pub(crate) fn of(parts: &Parts) -> Self {
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = parts.headers.iter();
        Self {
            method: parts.method.to_string(),
            target: parts.uri.to_string(),
            headers: headers.map(|(name, value)| (name.to_string(), text(value))).collect(),
        }
    }

    /// Reads the text of a head; lines that are no headers are left out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
        let (method, target) = line.split_once(' ')?;
        let pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let headers = rest.split('\n').filter_map(|line| line.split_once(": ")).map(pair).collect();
        Some(Self { method: method.to_owned(), target: target.to_owned(), headers })
    }

    /// The request, if hyper would hand such a one on.
    pub(crate) fn request<B>(&self, body: B) -> Option<Request<B>> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::from_bytes(self.method.as_bytes()).ok()?;
        *request.uri_mut() = Uri::try_from(&*self.target).ok()?;
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            request.headers_mut().append(name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        }
        Some(request)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.target)?;
        self.headers.iter().try_for_each(|(name, value)| write!(f, "\n{name}: {value}"))
    }
}

/// What a head asks for, once it is let in.
pub(crate) struct Meaning {
    parts: Parts,
    call: Call,
}

impl Meaning {
    /// The way of a head through the edge, up to where the cache or the origin would be asked.
    pub(crate) fn of(mut parts: Parts, mut query: Query) -> Option<Self> {
        route::refuse_ambiguous_headers(&parts).ok()?;
        route::lift_headers(&mut parts, &mut query).ok()?;
        let call = Call::parse(&parts, query, &Domains::default()).ok()?;
        let _ = (overrides(&call.query, true), conditions(&parts.headers));
        let _ = range_ask(&parts.headers);
        Some(Self { parts, call })
    }

    /// Written down for the origin, it means the same.
    pub(crate) fn check_written(mut self) {
        let target = format!("{}?{}", self.call.address.path(), self.call.query.encode());
        self.parts.uri = target.parse().expect("a target");
        let query = Query::parse(self.parts.uri.query()).expect("a query");
        let again = Call::parse(&self.parts, query, &Domains::default()).expect("a call");
        assert_eq!(again.address, self.call.address);
        assert_eq!(again.query, self.call.query);
        assert_eq!(again.operation, self.call.operation);
    }

    /// Parameters in no order: an empty value is none.
    fn parameters(&self) -> Vec<(&str, &str)> {
        let query = &self.call.query;
        let pair = |name| (name, query.get(name).unwrap_or_default());
        let mut pairs: Vec<_> = query.names().map(pair).collect();
        pairs.sort_unstable();
        pairs
    }
}

impl PartialEq for Meaning {
    fn eq(&self, other: &Self) -> bool {
        self.parts.method == other.parts.method
            && self.call.address == other.call.address
            && self.call.operation == other.call.operation
            && self.parameters() == other.parameters()
    }
}

impl fmt::Debug for Meaning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?}", self.parts.method, self.call, self.parameters())
    }
}
