// SPDX-License-Identifier: Apache-2.0
//
// lockrust MILLISECONDS: threads that wait for a std::sync::Mutex, whose holder sleeps with it, and for a Condvar. Rust's
// standard library waits by syscall(SYS_futex, ...). Each waiter times its waits; output: "mutex NS", "condvar NS",
// "done"; gates as the C victims have them.

use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

#[inline(never)]
fn wait_for_mutex(m: &Mutex<u64>) -> u64 {
    let start = Instant::now();
    let mut n = m.lock().unwrap();
    let waited = start.elapsed();
    *n += 1;
    waited.as_nanos() as u64
}

#[inline(never)]
fn wait_for_condvar(pair: &(Mutex<u64>, Condvar), target: u64) -> u64 {
    let start = Instant::now();
    let mut n = pair.0.lock().unwrap();
    while *n < target {
        n = pair.1.wait(n).unwrap();
    }
    start.elapsed().as_nanos() as u64
}

#[inline(never)]
fn hold_mutex(m: &Mutex<u64>, pause: Duration) {
    let mut n = m.lock().unwrap();
    std::thread::sleep(pause);
    *n += 1;
}

fn gate() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

fn main() {
    let ms: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(500);
    let step = Duration::from_millis(5);
    let rounds = ms / 10;
    gate();

    let m = Arc::new(Mutex::new(0u64));
    let pair = Arc::new((Mutex::new(0u64), Condvar::new()));
    let holder = {
        let (m, pair) = (m.clone(), pair.clone());
        std::thread::spawn(move || {
            for _ in 0..rounds {
                hold_mutex(&m, step);
                std::thread::sleep(step);
                *pair.0.lock().unwrap() += 1;
                pair.1.notify_all();
            }
        })
    };
    let for_mutex = {
        let m = m.clone();
        std::thread::spawn(move || {
            let mut total = 0;
            for _ in 0..rounds * 2 {
                std::thread::sleep(Duration::from_millis(1));
                total += wait_for_mutex(&m);
            }
            total
        })
    };
    let for_condvar = {
        let pair = pair.clone();
        std::thread::spawn(move || (1..=rounds).map(|i| wait_for_condvar(&pair, i)).sum::<u64>())
    };
    holder.join().unwrap();
    println!("mutex {}", for_mutex.join().unwrap());
    println!("condvar {}", for_condvar.join().unwrap());
    println!("done");
    gate();
}
