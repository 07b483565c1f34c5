# SPDX-License-Identifier: Apache-2.0
"""What annotated.cc does, from Python by ctypes: the agent's table is a symbol of the process, and without the agent all is
as if nothing had been called. Labels belong to the thread that runs the code: one of an asyncio program has one set."""
import ctypes
import sys
import time
from contextlib import contextmanager

text, task = ctypes.c_char_p, ctypes.c_uint64
function = ctypes.CFUNCTYPE


class Api(ctypes.Structure):
    """struct pprof_agent_api of agent/api/pprof_agent.h."""
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("label_set", function(ctypes.c_int, text, text)),
        ("labels_get", function(ctypes.c_uint32)),
        ("labels_put", function(None, ctypes.c_uint32)),
        ("profile_new", function(ctypes.c_void_p, text)),
        ("profile_add", function(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)),
        ("profile_remove", function(None, ctypes.c_void_p, ctypes.c_void_p)),
        ("task_begin", function(task, task, text)),
        ("task_end", function(None, task)),
        ("region_begin", function(None, task, text)),
        ("region_end", function(None, task, text)),
        ("log", function(None, task, text, text)),
    ]


class Nobody:
    """Stands for the agent where there is none."""
    def __getattr__(self, name):
        return lambda *args: 0


try:
    agent = Api.in_dll(ctypes.CDLL(None), "pprof_agent_api_v1")
except ValueError:
    agent = Nobody()


@contextmanager
def label(key, value):
    before = agent.labels_get()
    agent.label_set(key.encode(), value.encode())
    try:
        yield
    finally:
        agent.labels_put(before)


@contextmanager
def region(request, name):
    agent.region_begin(request, name.encode())
    try:
        yield
    finally:
        agent.region_end(request, name.encode())


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def serve(pool):
    request = agent.task_begin(0, b"request")
    with label("op", "checkout"):
        with region(request, "parse"):
            burn(0.002)
        agent.log(request, b"db", b'select "all"')
        with region(request, "query"):
            agent.profile_add(pool, 1, 0)
            burn(0.005)
            agent.profile_remove(pool, 1)
    agent.task_end(request)


def main():
    pool = agent.profile_new(b"db.connections")
    sys.stdin.readline()
    for _ in range(20):
        serve(pool)
    with label("op", "wait"):
        agent.profile_add(pool, 1, 0)
        print("served", flush=True)
        sys.stdin.readline()


main()
