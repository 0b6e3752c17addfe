//! cake's keys, and the rules that mark packets for it.

use shaper::flow::rules::{MAX_RULES, Rule};
use shaper::qdisc::cake::{self, AckFilter, Diffserv};
use shaper::rate::Overhead;
use shaper::units::Rate;
use toml::Spanned;

use crate::error::{At, Concern, Findings, Mistake};
use crate::file::{self, FlagOrWord};
use crate::model::ETHER_HEADER;

/// cake's parameters.
pub(super) fn params(
    path: &str,
    file: &file::Direction,
    bandwidth: Option<Rate>,
    overhead: Overhead,
    mtu: u16,
    findings: &mut Findings<'_>,
) -> cake::Params {
    if let Some(nat) = file.nat.as_ref().filter(|nat| *nat.get_ref()) {
        let remedy = "write nat = false (tc's nonat), and put weir on the inner side of the NAT, \
                      where hosts are seen";
        findings.error(At::value(path, "nat", nat.span()), Mistake::Nat, "false".to_owned(), remedy);
    }
    let default = cake::Params::default();
    let rtt = file.rtt.map_or(default.rtt, |file::Rtt(span)| span);
    cake::Params {
        bandwidth,
        overhead,
        rtt,
        target: cake::Params::target_of(rtt),
        diffserv: file.diffserv.map_or(default.diffserv, |file::Word(mode)| mode),
        flow_mode: file.flowmode.map_or(default.flow_mode, |file::Word(mode)| mode),
        memlimit: file.memlimit.map_or(default.memlimit, |file::SizeOr(limit)| limit),
        ack_filter: file.ack_filter.map_or(default.ack_filter, |filter| match filter {
            FlagOrWord::Flag(false) => AckFilter::Off,
            FlagOrWord::Flag(true) => AckFilter::Conservative,
            FlagOrWord::Word(filter) => filter,
        }),
        wash: file.wash.unwrap_or(default.wash),
        ingress: file.ingress.unwrap_or(default.ingress),
        autorate_ingress: file.autorate_ingress.unwrap_or(default.autorate_ingress),
        fwmark: file.fwmark.unwrap_or(default.fwmark),
        max_frame: u32::from(mtu) + ETHER_HEADER,
        ..default
    }
}

/// The rules of a direction whose discipline is `cake`.
pub(super) fn rules(
    path: &str,
    rules: &[Spanned<file::Rule>],
    cake: &cake::Params,
    findings: &mut Findings<'_>,
) -> Vec<Rule> {
    if let Some(beyond) = rules.get(MAX_RULES) {
        let remedy = "join prefixes, or let DSCPs say it";
        let what = Mistake::TooManyRules(rules.len());
        findings.error(At::key(path, "rule", beyond.span()), what, format!("at most {MAX_RULES}"), remedy);
    }
    let each = rules.iter().enumerate();
    each.map(|(index, rule)| one(&format!("{path}.rule[{index}]"), rule, cake, findings)).collect()
}

fn one(path: &str, rule: &Spanned<file::Rule>, cake: &cake::Params, findings: &mut Findings<'_>) -> Rule {
    let at = |key| At::key(path, key, rule.span());
    let file = rule.get_ref();
    let mark = file.mark.unwrap_or(0);
    if file.mark.is_none() && file.set_dscp.is_none() {
        let remedy = "add mark or set-dscp; mark = 0 excepts packets from the rules that follow";
        findings.error(at(""), Mistake::RuleSaysNothing, "mark or set-dscp".to_owned(), remedy);
    } else if cake.diffserv == Diffserv::BestEffort {
        findings.warn(at(""), Concern::OneTin, "write diffserv = \"diffserv4\", for example, or remove it");
    } else if mark != 0 && mark & cake.fwmark == 0 {
        let remedy = "write fwmark = 0xf, for example, and marks from 1 on: 1 is the first tin";
        findings.warn(at("mark"), Concern::MarkIgnored(mark, cake.fwmark), remedy);
    }
    let dscp = |dscp: Option<file::Dscp>| dscp.map(|file::Dscp(number)| number);
    Rule {
        source: file.source.map(|file::Prefix(prefix)| prefix),
        destination: file.destination.map(|file::Prefix(prefix)| prefix),
        vlan: file.vlan,
        dscp: dscp(file.dscp),
        pcp: file.pcp,
        exp: file.exp,
        mark,
        set_dscp: dscp(file.set_dscp),
    }
}
