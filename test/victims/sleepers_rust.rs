// SPDX-License-Identifier: Apache-2.0
//
// Rust threads that sleep in the ways of its standard library: still THREADS 0, as sleepers.h has it, ways sleep, park,
// condvar, channel, lock and join. Prints "ready"; ends after the next line of input.
use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

const FOREVER: Duration = Duration::from_secs(10_000_000);

struct Beds {
    held: Mutex<u64>,
    free: Mutex<u64>,
    cond: Condvar,
}

#[inline(never)]
fn nap_sleep(_: &Beds) -> u64 {
    thread::sleep(FOREVER);
    1
}

#[inline(never)]
fn nap_park(_: &Beds) -> u64 {
    loop {
        thread::park();
    }
}

#[inline(never)]
fn nap_condvar(b: &Beds) -> u64 {
    let mut g = b.free.lock().unwrap();
    loop {
        g = b.cond.wait(g).unwrap();
        *g += 1;
    }
}

#[inline(never)]
fn nap_channel(_: &Beds) -> u64 {
    let (tx, rx) = mpsc::channel::<u64>();
    let got = rx.recv().unwrap_or(0);
    drop(tx);
    got
}

#[inline(never)]
fn nap_lock(b: &Beds) -> u64 {
    *b.held.lock().unwrap()
}

#[inline(never)]
fn nap_join(_: &Beds) -> u64 {
    thread::Builder::new().name("joined".into()).spawn(|| thread::sleep(FOREVER)).unwrap().join().unwrap();
    1
}

static WAYS: [(&str, fn(&Beds) -> u64); 6] = [
    ("sleep", nap_sleep),
    ("park", nap_park),
    ("condvar", nap_condvar),
    ("channel", nap_channel),
    ("lock", nap_lock),
    ("join", nap_join),
];

#[inline(never)]
fn stay(way: usize, b: &Beds) -> u64 {
    std::hint::black_box(WAYS[way].1(b)) + 1
}

fn main() {
    let n: usize = std::env::args().nth(2).map_or(12, |s| s.parse().unwrap());
    let beds = Arc::new(Beds { held: Mutex::new(0), free: Mutex::new(0), cond: Condvar::new() });
    let held = beds.held.lock().unwrap();
    for i in 0..n {
        let b = beds.clone();
        let way = i % WAYS.len();
        thread::Builder::new().name(WAYS[way].0.into()).spawn(move || stay(way, &b)).unwrap();
    }
    thread::sleep(Duration::from_millis(100));
    println!("ready");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    drop(held);
    std::process::exit(0);
}
