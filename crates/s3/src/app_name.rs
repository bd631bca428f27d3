//! The name that a job gives itself: `app/NAME` among the words of `User-Agent`.

use forebay_telemetry::AppName;
use http::HeaderMap;
use http::header::USER_AGENT;

/// The name, where there is one.
pub(crate) fn app_name(headers: &HeaderMap) -> Option<AppName<'_>> {
    let agent = headers.get(USER_AGENT)?.as_bytes();
    let mut words = agent.split(|byte| *byte == b' ');
    AppName::new(words.find_map(|word| word.strip_prefix(b"app/"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn sent(agent: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(USER_AGENT, HeaderValue::from_bytes(agent).unwrap())])
    }

    #[test]
    fn the_name_that_an_sdk_sends_is_found() {
        for agent in [
            "Boto3/1.43.2 md/Botocore#1.43.2 ua/2.1 os/linux#6.1 md/arch#x86_64 lang/python#3.11 \
             md/pyimpl#CPython m/Z,b,E cfg/retry-mode#legacy app/train-7 Botocore/1.43.2",
            "aws-sdk-rust/1.3.9 ua/2.1 api/s3/1.110.0 os/linux lang/rust/1.90.0 app/train-7",
            "app/train-7",
        ] {
            assert_eq!(app_name(&sent(agent.as_bytes())), AppName::new(b"train-7"), "{agent}");
        }
    }

    #[test]
    fn a_client_without_a_name_has_none() {
        assert_eq!(app_name(&HeaderMap::new()), None);
        for agent in ["", "curl/8.5.0", "Boto3/1.43.2 myapp/train-7 cfg/app/train-7"] {
            assert_eq!(app_name(&sent(agent.as_bytes())), None, "{agent}");
        }
    }

    #[test]
    fn what_no_sdk_sends_is_no_name() {
        for agent in [&b"app/"[..], b"x app/a\"b", b"app/caf\xc3\xa9"] {
            assert_eq!(app_name(&sent(agent)), None, "{agent:?}");
        }
    }
}
