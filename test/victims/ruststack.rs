// SPDX-License-Identifier: Apache-2.0
//
// Stacks of ordinary Rust: threads, closures, trait objects, a hash map, sorting with a comparison, panics that are
// caught. Waits for a line on standard input, then burns until killed.
use std::collections::HashMap;
use std::hint::black_box;
use std::panic;
use std::thread;

trait Shape {
    fn area(&self, depth: u32) -> f64;
}

struct Square(f64);

impl Shape for Square {
    #[inline(never)]
    fn area(&self, depth: u32) -> f64 {
        let mut x = self.0;
        for i in 0..2000u32 {
            x = black_box(x * 1.000001 + f64::from(i));
        }
        if depth > 0 {
            x + black_box(Square(x).area(depth - 1))
        } else {
            x
        }
    }
}

#[inline(never)]
fn tally(words: &[String]) -> usize {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for w in words {
        *counts.entry(&w[..w.len().min(6)]).or_insert(0) += w.len();
    }
    counts.values().sum()
}

#[inline(never)]
fn sorter(words: &mut Vec<String>) -> usize {
    words.sort_by(|a, b| a.chars().rev().cmp(b.chars().rev()));
    words[0].len()
}

#[inline(never)]
fn thrower(depth: u32) -> usize {
    let local = vec![depth; 16];
    if depth == 0 {
        panic!("down");
    }
    black_box(thrower(depth - 1)) + black_box(local).len()
}

#[inline(never)]
fn once(shape: &dyn Shape) -> usize {
    let mut words: Vec<String> = (0..300u32).map(|i| format!("{}-word", i * 7919 % 1000)).collect();
    let caught = panic::catch_unwind(|| thrower(8)).is_err();
    tally(&words) + sorter(&mut words) + usize::from(caught) + black_box(shape.area(12)) as usize
}

fn main() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    panic::set_hook(Box::new(|_| {}));
    let workers: Vec<_> = (0..2u32)
        .map(|i| {
            thread::Builder::new()
                .name(format!("rust-worker-{i}"))
                .spawn(move || {
                    let shape: Box<dyn Shape> = Box::new(Square(f64::from(i)));
                    loop {
                        black_box(once(&*shape));
                    }
                })
                .unwrap()
        })
        .collect();
    let shape = Square(1.0);
    for _ in 0..20 {
        black_box(once(&shape));
    }
    for w in workers {
        w.join().unwrap();
    }
}
