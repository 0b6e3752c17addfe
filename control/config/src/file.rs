//! The file as serde sees it: names and types, nothing filled in.
//!
//! Ranges, and all that a person must be told about, are checked before against the schema
//! ([`crate::check`]); what is refused here in spite of that is a fault of weir.

use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use shaper::flow::rules;
use shaper::gso::Split;
use shaper::qdisc::cake::{AckFilter, Diffserv, FlowMode};
use shaper::rate;
use shaper::time::Duration;
use shaper::units::Rate;
use toml::Spanned;

use crate::model::Offload;
use crate::words::{self, Words};
use crate::{device, schema, units};

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    pub(crate) eal: Eal,
    #[serde(default)]
    pub(crate) engine: Engine,
    #[serde(default)]
    pub(crate) api: Api,
    #[serde(default)]
    pub(crate) link: Vec<Spanned<Link>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Eal {
    #[serde(default)]
    pub(crate) args: Vec<Spanned<String>>,
    pub(crate) lcores: Option<Lcores>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lcores {
    pub(crate) main: u32,
    pub(crate) workers: Vec<Spanned<u32>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    pub(crate) poll: Option<Poll>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Poll {
    Adaptive,
    Busy,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Api {
    pub(crate) listen: Option<Spanned<Listen>>,
    pub(crate) token_file: Option<Spanned<Path>>,
    pub(crate) tls_cert: Option<Spanned<Path>>,
    pub(crate) tls_key: Option<Spanned<Path>>,
    pub(crate) allow_hosts: Option<Spanned<Vec<String>>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Link {
    pub(crate) name: Spanned<String>,
    pub(crate) a: Spanned<TextOr<Port>>,
    pub(crate) b: Spanned<TextOr<Port>>,
    pub(crate) up: Option<TextOr<Direction>>,
    pub(crate) down: Option<TextOr<Direction>>,
    pub(crate) link_down_hold: Option<Span>,
    pub(crate) propagate_link: Option<bool>,
    pub(crate) on_stop: Option<Spanned<OnStop>>,
}

#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OnStop {
    LinkDown,
    Bridge,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Port {
    pub(crate) device: Spanned<String>,
    pub(crate) mtu: Option<u16>,
    pub(crate) rx_ring: Option<u16>,
    pub(crate) tx_ring: Option<u16>,
    pub(crate) tso: Option<Word<Offload>>,
    pub(crate) lro: Option<Word<Offload>>,
    pub(crate) complete_on: Option<CompleteOn>,
    pub(crate) limit_min: Option<Spanned<Size>>,
    pub(crate) limit_max: Option<Spanned<SizeOr>>,
    pub(crate) hold_time: Option<Spanned<Span>>,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Direction {
    pub(crate) tc: Option<Spanned<String>>,
    pub(crate) qdisc: Option<Qdisc>,
    pub(crate) bandwidth: Option<Spanned<Bandwidth>>,
    pub(crate) overhead: Option<Spanned<Overhead>>,
    pub(crate) mpu: Option<Spanned<u16>>,
    pub(crate) atm: Option<Spanned<Framing>>,
    #[serde(rename = "catch-up")]
    pub(crate) catch_up: Option<Spanned<Span>>,
    #[serde(rename = "split-gso")]
    pub(crate) split_gso: Option<FlagOrWord<Split>>,
    #[serde(rename = "gso-budget")]
    pub(crate) gso_budget: Option<Spanned<Span>>,
    pub(crate) gro: Option<bool>,
    pub(crate) limit: Option<u32>,
    pub(crate) flows: Option<u32>,
    pub(crate) target: Option<Spanned<Span>>,
    pub(crate) interval: Option<Spanned<Span>>,
    pub(crate) quantum: Option<Spanned<u32>>,
    pub(crate) ecn: Option<bool>,
    pub(crate) ce_threshold: Option<Threshold>,
    pub(crate) ce_threshold_selector: Option<Spanned<Selector>>,
    pub(crate) drop_batch: Option<u32>,
    pub(crate) memory_limit: Option<Spanned<Size>>,
    #[serde(rename = "autorate-ingress")]
    pub(crate) autorate_ingress: Option<bool>,
    pub(crate) rtt: Option<Rtt>,
    pub(crate) diffserv: Option<Word<Diffserv>>,
    pub(crate) flowmode: Option<Word<FlowMode>>,
    pub(crate) nat: Option<Spanned<bool>>,
    pub(crate) wash: Option<bool>,
    #[serde(rename = "ack-filter")]
    pub(crate) ack_filter: Option<FlagOrWord<AckFilter>>,
    pub(crate) memlimit: Option<SizeOr>,
    pub(crate) fwmark: Option<u32>,
    pub(crate) ingress: Option<bool>,
    #[serde(default)]
    pub(crate) rule: Vec<Spanned<Rule>>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) source: Option<Prefix>,
    pub(crate) destination: Option<Prefix>,
    pub(crate) vlan: Option<u16>,
    pub(crate) dscp: Option<Dscp>,
    pub(crate) pcp: Option<u8>,
    pub(crate) exp: Option<u8>,
    pub(crate) mark: Option<u32>,
    #[serde(rename = "set-dscp")]
    pub(crate) set_dscp: Option<Dscp>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Qdisc {
    #[default]
    FqCodel,
    Cake,
    Fifo,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CompleteOn {
    Completion,
    Submit,
}

#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Framing {
    NoAtm,
    Atm,
    Ptm,
}

/// A text, or a table.
#[derive(Debug)]
pub(crate) enum TextOr<T> {
    Text(String),
    Table(Box<T>),
}

/// An address and a port, or `off`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

/// A file with its whole path, or `none`.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Path(pub(crate) Option<PathBuf>);

/// A rate, or `unlimited`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Bandwidth(pub(crate) Option<Rate>);

/// A span of time.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Span(pub(crate) Duration);

/// A span of time, or `off`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Threshold(pub(crate) Option<Duration>);

/// An amount of memory in bytes.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Size(pub(crate) u64);

/// `VALUE/MASK`.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Selector {
    pub(crate) value: u8,
    pub(crate) mask: u8,
}

/// A span of time, or a preset's name.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Rtt(pub(crate) Duration);

/// An amount of memory in bytes, or the word that the schema has for none said.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct SizeOr(pub(crate) Option<u32>);

/// A word with a meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<T>(pub(crate) T);

/// `true`, `false`, or a word with a meaning.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FlagOrWord<T> {
    Flag(bool),
    Word(T),
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Prefix(pub(crate) rules::Prefix);

/// A DSCP by number or name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dscp(pub(crate) u8);

/// A number of bytes, or keywords.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overhead(pub(crate) rate::Overhead);

impl TryFrom<String> for Bandwidth {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            UNLIMITED => Ok(Self(None)),
            text if text.trim_end().ends_with('%') => {
                Err("a share of the port's speed is not taken, as that speed may be unknown or change"
                    .to_owned())
            }
            text => units::parse_rate(text).map(|rate| Self(Some(rate))).map_err(|error| error.to_string()),
        }
    }
}

impl TryFrom<String> for Span {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        units::parse_time(&text).map(Self).map_err(|error| error.to_string())
    }
}

impl TryFrom<String> for Listen {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            OFF => Ok(Self(None)),
            text => {
                text.parse().map(|address| Self(Some(address))).map_err(|_| match text.parse::<IpAddr>() {
                    Ok(_) => "the port is missing".to_owned(),
                    Err(_) => "it is no address with a port; names are not looked up".to_owned(),
                })
            }
        }
    }
}

impl TryFrom<String> for Path {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            NONE => Ok(Self(None)),
            text if text.starts_with('/') => Ok(Self(Some(PathBuf::from(text)))),
            _ => Err("it does not begin with /, and weir may be started from anywhere".to_owned()),
        }
    }
}

impl TryFrom<String> for Threshold {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text == OFF { Ok(Self(None)) } else { Span::try_from(text).map(|Span(span)| Self(Some(span))) }
    }
}

impl TryFrom<String> for Size {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        units::parse_size(&text).map(Self).map_err(|error| error.to_string())
    }
}

impl TryFrom<String> for Rtt {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match schema::RTT_PRESETS.iter().find(|(word, _)| *word == text) {
            Some((_, span)) => Ok(Self(*span)),
            None => Span::try_from(text).map(|Span(span)| Self(span)),
        }
    }
}

impl TryFrom<String> for SizeOr {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text == AUTO || text == UNLIMITED {
            return Ok(Self(None));
        }
        let Size(bytes) = Size::try_from(text)?;
        // Beyond 32 bits it is out of range too.
        Ok(Self(Some(u32::try_from(bytes).unwrap_or(u32::MAX))))
    }
}

impl TryFrom<String> for Prefix {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let (address, length) = text.split_once('/').ok_or("there is no \"/\" in it")?;
        let address: IpAddr =
            address.trim().parse().map_err(|_| format!("\"{address}\" is no IPv4 or IPv6 address"))?;
        let length: u8 = length.trim().parse().map_err(|_| format!("\"{length}\" is no number of bits"))?;
        let prefix = match address {
            IpAddr::V4(address) => rules::Prefix::v4(address.octets(), length),
            IpAddr::V6(address) => rules::Prefix::v6(address.octets(), length),
        };
        let prefix = prefix.ok_or("an address does not have that many bits")?;
        let (start, _) = prefix.parts();
        if start != address {
            return Err(format!("{address} has bits beyond the first {length}; {start}/{length} has not"));
        }
        Ok(Self(prefix))
    }
}

impl TryFrom<String> for Selector {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let (value, mask) = text.split_once('/').ok_or("there is no \"/\" in it")?;
        let (value, mask) = (byte(value)?, byte(mask)?);
        if value & !mask != 0 {
            return Err("VALUE has bits that MASK does not look at, so nothing would ever match".to_owned());
        }
        Ok(Self { value, mask })
    }
}

impl TryFrom<&str> for Overhead {
    type Error = String;
    fn try_from(words: &str) -> Result<Self, String> {
        let overhead: rate::Overhead =
            words.parse().map_err(|error: rate::OverheadError| error.to_string())?;
        let range = schema::OVERHEAD_MIN..=schema::OVERHEAD_MAX;
        let sum = overhead.bytes;
        if words.trim().is_empty() {
            return Err("it is empty".to_owned());
        }
        range
            .contains(&sum.into())
            .then_some(Self(overhead))
            .ok_or_else(|| format!("it adds up to {sum} bytes"))
    }
}

/// 0..=255, decimal or with `0x`.
fn byte(text: &str) -> Result<u8, String> {
    let text = text.trim();
    let parsed = match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed
        .ok()
        .filter(|_| !text.contains('+'))
        .ok_or_else(|| format!("\"{text}\" is not 0 to 255 or 0x00 to 0xff"))
}

impl<'de> Deserialize<'de> for Overhead {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrWords;
        impl Visitor<'_> for NumberOrWords {
            type Value = Overhead;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or keywords")
            }
            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<Overhead, E> {
                Overhead::try_from(format!("overhead {bytes}").as_str()).map_err(E::custom)
            }
            fn visit_str<E: de::Error>(self, words: &str) -> Result<Overhead, E> {
                Overhead::try_from(words).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(NumberOrWords)
    }
}

impl<'de, T: Words> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        T::of(&word).map(Self).ok_or_else(|| de::Error::custom("an unknown word"))
    }
}

impl<'de, T: Words> Deserialize<'de> for FlagOrWord<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<T>(PhantomData<T>);
        impl<T: Words> Visitor<'_> for Either<T> {
            type Value = FlagOrWord<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false or a word")
            }
            fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Self::Value, E> {
                Ok(FlagOrWord::Flag(flag))
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
                T::of(word).map(FlagOrWord::Word).ok_or_else(|| E::custom("an unknown word"))
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Dscp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NumberOrName;
        impl Visitor<'_> for NumberOrName {
            type Value = Dscp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a DSCP")
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Dscp, E> {
                u8::try_from(number).map(Dscp).map_err(E::custom)
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Dscp, E> {
                words::dscp(name).map(Dscp).ok_or_else(|| E::custom("an unknown name"))
            }
        }
        deserializer.deserialize_any(NumberOrName)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for TextOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for TextOrTable<T> {
            type Value = TextOr<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text or a table")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOr<T>, E> {
                Ok(TextOr::Text(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<TextOr<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|table| TextOr::Table(Box::new(table)))
            }
        }
        deserializer.deserialize_any(TextOrTable(PhantomData))
    }
}

impl TryFrom<&TextOr<Port>> for device::Device {
    type Error = String;
    fn try_from(port: &TextOr<Port>) -> Result<Self, String> {
        device::Device::parse(match port {
            TextOr::Text(device) => device,
            TextOr::Table(port) => port.device.get_ref(),
        })
    }
}

/// No file.
pub(crate) const NONE: &str = "none";

/// No shaping, or no bound.
pub(crate) const UNLIMITED: &str = "unlimited";
/// Nothing of the kind.
pub(crate) const OFF: &str = "off";
/// As other keys have it.
pub(crate) const AUTO: &str = "auto";

#[cfg(test)]
mod tests {
    use serde::forward_to_deserialize_any;

    use super::*;

    /// Takes down which fields a struct asks for.
    struct Fields<'f>(&'f mut Vec<&'static str>);

    impl<'de> Deserializer<'de> for Fields<'_> {
        type Error = de::value::Error;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
            Err(de::Error::custom("not a struct"))
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            self.0.extend(fields);
            Err(de::Error::custom("only asked"))
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
            newtype_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    fn fields<'de, T: Deserialize<'de>>() -> Vec<&'static str> {
        let mut fields = Vec::new();
        let refused = T::deserialize(Fields(&mut fields)).is_err();
        assert!(refused);
        fields
    }

    #[test]
    fn the_types_have_the_keys_of_the_schema() {
        let tables = [
            (fields::<File>(), &schema::ROOT),
            (fields::<Eal>(), &schema::EAL),
            (fields::<Lcores>(), &schema::LCORES),
            (fields::<Engine>(), &schema::ENGINE),
            (fields::<Link>(), &schema::LINK),
            (fields::<Port>(), &schema::PORT),
            (fields::<Direction>(), &schema::DIRECTION),
            (fields::<Rule>(), &schema::RULE),
        ];
        for (fields, table) in tables {
            let names: Vec<_> = table.keys.iter().map(|key| key.name).collect();
            assert_eq!(fields, names, "{}", table.heading);
        }
    }
}
