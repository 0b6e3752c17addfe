//! Figures in at most six characters, as they fit in a column.

/// Bit/s, bytes or packets: three digits and a power of a thousand.
pub fn amount(value: f64) -> String {
    let (mut value, mut units) = (value, ["", "k", "M", "G", "T"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 999.5 {
        let Some(larger) = units.next() else { break };
        (value, unit) = (value / 1_000.0, larger);
    }
    format!("{}{unit}", digits(value, unit.is_empty()))
}

/// A rate of events: below ten with a decimal, as one in two seconds is something else than none.
pub fn per_second(value: f64) -> String {
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { amount(value) }
}

/// A time in nanoseconds.
pub fn time(nanos: u64) -> String {
    let micros = nanos as f64 / 1e3;
    match micros {
        _ if micros < 999.5 => format!("{}us", digits(micros, micros >= 9.95)),
        _ if micros < 999_500.0 => format!("{}ms", digits(micros / 1e3, false)),
        _ => format!("{}s", digits(micros / 1e6, false)),
    }
}

/// Hours, minutes and seconds.
pub fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

fn digits(value: f64, whole: bool) -> String {
    match value {
        _ if whole || value >= 99.95 || value == 0.0 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let amounts = [0.0, 7.0, 950.0, 999.6, 18_912.0, 1_000_000.0, 94_960_000.0, 2.5e12, 9e18];
        let written = ["0", "7", "950", "1.00k", "18.9k", "1.00M", "95.0M", "2.50T", "9000000T"];
        assert_eq!(amounts.map(amount), written);
        assert_eq!([0.0, 0.5, 9.0, 12.0].map(per_second), ["0", "0.5", "9.0", "12"]);
        let times = [0, 800, 1_000, 12_345, 999_600, 4_100_000, 250_000_000, 1_230_000_000, 60_000_000_000];
        let written = ["0us", "0.80us", "1.00us", "12us", "1.00ms", "4.10ms", "250ms", "1.23s", "60.0s"];
        assert_eq!(times.map(time), written);
        assert_eq!(clock(3_723.9), "1:02:03");
    }
}
