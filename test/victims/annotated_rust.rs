// SPDX-License-Identifier: Apache-2.0
//
// What annotated.cc does, from Rust: the agent's table is found by dlsym, and without the agent all is as if nothing had
// been called. Names are given with their NUL.

use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::ptr::null;

/// struct pprof_agent_api of agent/api/pprof_agent.h, as far as it is used here.
#[repr(C)]
struct Api {
    size: usize,
    label_set: extern "C" fn(*const c_char, *const c_char) -> c_int,
    labels_get: extern "C" fn() -> u32,
    labels_put: extern "C" fn(u32),
    profile_new: extern "C" fn(*const c_char) -> *mut c_void,
    profile_add: extern "C" fn(*mut c_void, *const c_void, c_int) -> c_int,
    profile_remove: extern "C" fn(*mut c_void, *const c_void),
    task_begin: extern "C" fn(u64, *const c_char) -> u64,
    task_end: extern "C" fn(u64),
    region_begin: extern "C" fn(u64, *const c_char),
    region_end: extern "C" fn(u64, *const c_char),
    log: extern "C" fn(u64, *const c_char, *const c_char),
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

extern "C" {
    fn clock_gettime(clock: c_int, now: *mut Timespec) -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

fn text(s: &'static str) -> *const c_char {
    assert!(s.ends_with('\0'));
    s.as_ptr() as *const c_char
}

fn agent() -> Option<&'static Api> {
    unsafe { (dlsym(std::ptr::null_mut(), text("pprof_agent_api_v1\0")) as *const Api).as_ref() }
}

struct Region<'a>(Option<&'a Api>, u64, &'static str);

impl<'a> Region<'a> {
    fn new(api: Option<&'a Api>, task: u64, name: &'static str) -> Self {
        if let Some(a) = api {
            (a.region_begin)(task, text(name));
        }
        Region(api, task, name)
    }
}

impl Drop for Region<'_> {
    fn drop(&mut self) {
        if let Some(a) = self.0 {
            (a.region_end)(self.1, text(self.2));
        }
    }
}

struct Label<'a>(Option<&'a Api>, u32);

impl<'a> Label<'a> {
    fn new(api: Option<&'a Api>, key: &'static str, value: &'static str) -> Self {
        let before = api.map_or(0, |a| (a.labels_get)());
        if let Some(a) = api {
            (a.label_set)(text(key), text(value));
        }
        Label(api, before)
    }
}

impl Drop for Label<'_> {
    fn drop(&mut self) {
        if let Some(a) = self.0 {
            (a.labels_put)(self.1);
        }
    }
}

fn gate() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

fn thread_cpu_ns() -> i64 {
    const CLOCK_THREAD_CPUTIME_ID: c_int = 3;
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(CLOCK_THREAD_CPUTIME_ID, &mut now) };
    now.seconds * 1_000_000_000 + now.nanoseconds
}

#[inline(never)]
fn burn(ms: i64) {
    let end = thread_cpu_ns() + ms * 1_000_000;
    while thread_cpu_ns() < end {
        std::hint::spin_loop();
    }
}

#[inline(never)]
fn serve(api: Option<&Api>, pool: *mut c_void) {
    let task = api.map_or(0, |a| (a.task_begin)(0, text("request\0")));
    let _op = Label::new(api, "op\0", "checkout\0");
    {
        let _parse = Region::new(api, task, "parse\0");
        burn(2);
    }
    if let Some(a) = api {
        (a.log)(task, text("db\0"), text("select \"all\"\0"));
    }
    {
        let _query = Region::new(api, task, "query\0");
        let connection = 1u8;
        let used = &connection as *const u8 as *const c_void;
        if let Some(a) = api {
            (a.profile_add)(pool, used, 0);
        }
        burn(5);
        if let Some(a) = api {
            (a.profile_remove)(pool, used);
        }
    }
    if let Some(a) = api {
        (a.task_end)(task);
    }
}

fn main() {
    let api = agent();
    if let Some(a) = api {
        assert!(a.size >= std::mem::size_of::<Api>());
    }
    let pool = api.map_or(null::<c_void>() as *mut c_void, |a| (a.profile_new)(text("db.connections\0")));
    gate();
    for _ in 0..20 {
        serve(api, pool);
    }
    let _op = Label::new(api, "op\0", "wait\0");
    if let Some(a) = api {
        (a.profile_add)(pool, &pool as *const _ as *const c_void, 0);
    }
    println!("served");
    std::io::stdout().flush().unwrap();
    gate();
}
