//! What is asked behind the `?` of a path, and what is wrong with it.

use super::fault::Fault;
use super::route::clipped;
use axum::extract::Query;
use hyper::Uri;
use serde::de::DeserializeOwned;

/// The parameters of a path. Each may be left out, and no two depend on each other.
pub trait Parameters: DeserializeOwned {
    /// Each name with what it takes, for people.
    const TAKES: &[(&str, &str)];
}

/// The parameters in `uri`.
///
/// # Errors
/// There is no such parameter, it is given twice, or takes no such value.
pub fn asked<T: Parameters>(uri: &Uri) -> Result<T, Fault> {
    Query::try_from_uri(uri).map(|Query(parameters)| parameters).map_err(|_| Fault::bad(wrong::<T>(uri)))
}

/// Which of them is wrong: the first that is so alone, or else one is given twice.
fn wrong<T: Parameters>(uri: &Uri) -> String {
    let alone =
        |pair: &&str| format!("/?{pair}").parse().is_ok_and(|uri| Query::<T>::try_from_uri(&uri).is_ok());
    let takes = |(name, what): &(&str, &str)| format!("{name} ({what})");
    let all = T::TAKES.iter().map(takes).collect::<Vec<_>>().join(", ");
    let Some(pair) = uri.query().unwrap_or_default().split('&').find(|pair| !alone(pair)) else {
        return format!("give each parameter once; there are {all}");
    };
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    match T::TAKES.iter().find(|(known, _)| *known == name) {
        Some((_, what)) => format!("{name} takes {what}, not {:?}", clipped(value)),
        None => format!("there is no parameter {:?}; there are {all}", clipped(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Search {
        after: u64,
        sure: bool,
    }

    impl Parameters for Search {
        const TAKES: &[(&str, &str)] = &[("after", "a number"), ("sure", "true or false")];
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_the_path() {
        let uri = |query: &str| format!("/x?{query}").parse::<Uri>().unwrap();
        assert_eq!(asked::<Search>(&uri("after=3&sure=true")).unwrap(), Search { after: 3, sure: true });
        assert_eq!(asked::<Search>(&uri("")).unwrap(), Search::default());
        for (query, told) in [
            ("sure=true&after=-1", "after takes a number, not \"-1\""),
            ("after", "after takes a number, not \"\""),
            ("sure=%FF", "sure takes true or false, not \"%FF\""),
            ("since=1", "there is no parameter \"since\"; there are after (a number), sure (true or false)"),
            ("after=1&after=2", "give each parameter once; there are after (a number), sure (true or false)"),
        ] {
            assert!(asked::<Search>(&uri(query)).is_err(), "{query}");
            assert_eq!(wrong::<Search>(&uri(query)), told);
        }
    }
}
