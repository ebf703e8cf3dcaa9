#!/usr/bin/env python3
"""Shares of a link: greedy Squall sessions beside TCP connections, with real sockets.

Each run is a `squall-lab shell` with one emulated link. A row has the Mbps of each TCP connection and each session at the end of
the link, headers included, from the tenth second on. For root, on an idle machine; TCP with BBR needs the module tcp_bbr.

    scripts/coexist.py --squall target/release/squall                       # the table of docs/notebook/congestion.md
    scripts/coexist.py --squall ... --rtt 30 --queue 100kB --beside cubic --paths 2
    scripts/coexist.py --squall ... --beside none --sessions 2
    scripts/coexist.py --squall ... --sessions 0 --beside bbr,cubic         # what CUBIC gets beside BBR
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

SERVER, CLIENT = "10.77.1.1", ["10.77.1.2", "10.77.1.102"]
TOKEN = "coexistence-token"
FIRST, TCP_PORT, SESSION_PORT = 10.0, 5001, 4433


def lab_of(squall):
    """The squall-lab program, which stands beside squall."""
    return str(Path(shutil.which(squall) or squall).with_name("squall-lab"))


def names(text):
    return [name for name in text.split(",") if name and name != "none"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squall", default="squall", help="the program (default: squall)")
    parser.add_argument("--rate", default="20mbps", help="of the link (default: 20mbps)")
    parser.add_argument("--rtt", type=names, default=["30", "80"], help="round trips in ms (default: 30,80)")
    parser.add_argument("--queue", type=names, default=["20kB", "100kB", "400kB"], help="(default: 20kB,100kB,400kB)")
    parser.add_argument("--beside", type=names, default=["cubic"], help="TCP connections by congestion control (default: cubic)")
    parser.add_argument("--sessions", type=int, default=1, help="(default: 1)")
    parser.add_argument("--paths", type=int, choices=[1, 2], default=1, help="of each session, all through the link (default: 1)")
    parser.add_argument("--congestion", default="steady", help="of the sessions (default: steady)")
    parser.add_argument("--time", type=float, default=40.0, help="seconds of a run, more than 15 (default: 40)")
    options = parser.parse_args()
    if options.time <= 15:
        parser.error("--time: a run takes more than 15 s")
    if os.geteuid() != 0:
        parser.error("the links need root")
    if (program := shutil.which(options.squall)) is None:
        parser.error(f"--squall: there is no program {options.squall}")
    options.squall = os.path.abspath(program)
    for control in options.beside:
        with socket.socket() as connection:
            try:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
            except OSError as error:
                parser.error(f"--beside: {control}: {error.strerror}")
    return options


def run(options, rtt, queue):
    """One run; a line of figures."""
    with tempfile.TemporaryDirectory() as folder:
        job = dict(vars(options), folder=folder)
        environment = dict(os.environ, COEXIST=json.dumps(job))
        me = f"{sys.executable} {os.path.abspath(__file__)}"
        link = f"name=a,rate={options.rate},delay={float(rtt) / 2}ms,queue={queue}"
        shell = [lab_of(options.squall), "shell", "--link", link, "--time", f"{options.time + 3:.0f}s"]
        shell += ["--server", f"{me} server", "--client", f"{me} client"]
        done = subprocess.run(shell, env=environment, capture_output=True, text=True, timeout=options.time + 60)
    figures = re.search(r"FIGURES (.*)", done.stdout + done.stderr)
    if not figures:
        sys.exit(f"coexist: the run over {rtt} ms and {queue} failed:\n{done.stdout}{done.stderr}")
    cells = (f"{one:.1f}" for one in json.loads(figures[1]))
    print(f"| {queue} | {rtt} ms | " + " | ".join(cells) + " |", flush=True)


def server(job):
    """Takes in everything, and counts what each brings and what comes through the interface."""
    connections = len(job["beside"])
    counts = [0] * (connections + job["sessions"])
    sessions = [
        subprocess.Popen(
            [job["squall"], "recv", "--listen", f"0.0.0.0:{SESSION_PORT + one}", "--out", "-", "--token", TOKEN, "--max-size", "100GB"],
            stdout=subprocess.PIPE,
            stderr=open(f"{job['folder']}/recv{one}", "w"),
        )
        for one in range(job["sessions"])
    ]

    def sink(one):
        with socket.create_server(("0.0.0.0", TCP_PORT + one)) as listener:
            connection, _ = listener.accept()
        while data := connection.recv(1 << 16):
            counts[one] += len(data)

    def drain(one):
        while data := sessions[one].stdout.read1(1 << 16):
            counts[connections + one] += len(data)

    def now():
        with open("/proc/net/dev") as devices:
            links = (line.split(":") for line in devices if ":" in line)
            link = sum(int(figures.split()[0]) for name, figures in links if name.strip() != "lo")
        return time.monotonic(), link, list(counts)

    for work, one in [*((sink, one) for one in range(connections)), *((drain, one) for one in range(job["sessions"]))]:
        threading.Thread(target=work, args=(one,), daemon=True).start()
    time.sleep(FIRST)
    before = now()
    time.sleep(job["time"] - FIRST)
    after = now()
    mbps = 8e-6 / (after[0] - before[0])
    got = [(late - early) * mbps for late, early in zip(after[2], before[2])]
    # A segment of 1,448 bytes is a packet of 1,500; the rest is that of the sessions with its headers.
    tcp = [one * 1500 / 1448 for one in got[:connections]]
    rest, useful = (after[1] - before[1]) * mbps - sum(tcp), sum(got[connections:])
    print("FIGURES", json.dumps(tcp + [rest * one / useful for one in got[connections:]]), flush=True)
    for session in sessions:
        session.kill()


def client(job):
    """Sends as much as it can on all of them."""
    time.sleep(1)
    if job["paths"] == 2:
        subprocess.run(["ip", "addr", "add", f"{CLIENT[1]}/24", "dev", "a"], check=True)
    interfaces = [word for address in CLIENT[: job["paths"]] for word in ("--interface", address)]
    sessions = []
    for one in range(job["sessions"]):
        time.sleep(0.5)
        send = [job["squall"], "send", "-", "--to", f"{SERVER}:{SESSION_PORT + one}", "--insecure", "--token", TOKEN]
        send += ["--congestion", job["congestion"], *interfaces]
        output = open(f"{job['folder']}/send{one}", "w")
        sessions.append(subprocess.Popen(send, stdin=open("/dev/zero"), stdout=output, stderr=output))
    time.sleep(1)

    def greedy(one, control):
        connection = socket.socket()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
        connection.connect((SERVER, TCP_PORT + one))
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(bytes(1 << 16))

    for one, control in enumerate(job["beside"]):
        threading.Thread(target=greedy, args=(one, control), daemon=True).start()
    time.sleep(job["time"] - 0.5)
    for session in sessions:
        session.kill()


def main():
    if sys.argv[1:] in (["server"], ["client"]) and "COEXIST" in os.environ:
        {"server": server, "client": client}[sys.argv[1]](json.loads(os.environ["COEXIST"]))
        # Threads that wait for the other side are no longer needed.
        sys.stdout.flush()
        os._exit(0)
    options = arguments()
    heads = ["queue", "round trip", *(f"TCP {control}" for control in options.beside)]
    heads += [f"session {one + 1}" for one in range(options.sessions)]
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for queue in options.queue:
        for rtt in options.rtt:
            run(options, rtt, queue)


main()
