//! Runs inputs of the fuzz target one by one, and makes one that fails smaller:
//! `cargo run -p sim --example drive -- FILE...`, result in `FILE.min`.

use std::panic::{catch_unwind, set_hook, take_hook};

fn main() -> std::io::Result<()> {
    for path in std::env::args().skip(1) {
        println!("{path}");
        let mut input = std::fs::read(&path)?;
        let fails = |input: &[u8]| catch_unwind(|| sim::drive::run(input)).is_err();
        if !fails(&input) {
            continue;
        }
        let hook = take_hook();
        set_hook(Box::new(|_| ()));
        let mut size = input.len() / 2;
        while size > 0 {
            let mut at = 0;
            while at < input.len() {
                let mut smaller = input.clone();
                smaller.drain(at..(at + size).min(input.len()));
                if fails(&smaller) {
                    input = smaller;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        set_hook(hook);
        std::fs::write(format!("{path}.min"), &input)?;
        println!("{} bytes left: {input:?}", input.len());
        let _ = catch_unwind(|| sim::drive::run(&input));
    }
    Ok(())
}
