//! The web page: wide and light, wide and dark, on a phone; and `weir top`, of the same traffic.

use std::time::Duration;

use anyhow::Result;
use hwtests::browser::{Browser, View};
use hwtests::clock::Interrupt;
use hwtests::progress::Progress;

use crate::traffic::Bed;
use crate::{Args, write};

/// Lets traffic run for a while, with a backup in its last two thirds and a lower bandwidth in its last third, and
/// takes the pictures of it.
///
/// # Errors
/// What the browser, weir or a program of the traffic complains of.
pub(crate) fn pictures(bed: &Bed, args: &Args, progress: &mut Progress, interrupt: &Interrupt) -> Result<()> {
    let mut browser = Browser::start(bed.folder())?;
    browser.show_in(VIEWS[0].1)?;
    browser.open(&bed.url())?;
    browser.until("before !== null")?;
    let third = Duration::from_secs(args.seconds.into()) / 3;
    // Beyond the time that the pictures take.
    let seconds = args.seconds + 60;
    progress.stage("downloads and a call");
    let mut traffic = bed.downloads(seconds, interrupt)?;
    interrupt.sleep(third)?;
    progress.stage("and a backup");
    bed.backup(&mut traffic, seconds, interrupt)?;
    interrupt.sleep(third)?;
    progress.stage("and less bandwidth");
    bed.set("down.bandwidth", "60Mbit")?;
    interrupt.sleep(third)?;
    progress.stage(TOP);
    bed.top(&args.out.join(TOP))?;
    for (name, view) in VIEWS {
        progress.stage(name);
        browser.show_in(view)?;
        // Drawn anew for this width, and once more with numbers of now.
        browser.until(&format!(
            "innerWidth === {} && (drawAll(), byId('state').className === 'live')",
            view.width
        ))?;
        write(&args.out, name, &browser.picture()?)?;
    }
    Ok(())
}

/// The terminal.
const TOP: &str = "top.svg";

const VIEWS: [(&str, View); 3] = [
    ("page.png", View { width: 1200, height: 1180, scale: 1.0, is_dark: false }),
    ("page-dark.png", View { width: 1200, height: 1180, scale: 1.0, is_dark: true }),
    ("page-phone.png", View { width: 390, height: 844, scale: 2.0, is_dark: false }),
];
