#!/usr/bin/env python3
"""IP packets through a tunnel between network namespaces, as between machines:

    tun.py SQUALL [TEST...]

Needs root and /dev/net/tun. Exit code 0: all as it should be, 75: only a rate or a delay is wrong, 77: not permitted here. The measurements of docs/notebook/tun.md are
tests whose name begins with "measure"; they run only where they are named.
"""

import ctypes
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14
EF = 46 << 2
PREFIX = f"squall-{os.getpid()}-"
TOKEN, CAR_TOKEN = "a token for tests", "the token of the car"
EXIT, EXIT6 = "10.98.0.1", "fd98::1"
ENTRY, ENTRY6 = "10.98.0.2", "fd98::2"
# Before a packet in the tunnel that is not a burst.
WHOLE = bytes(2)


class Skip(Exception):
    """The machine lacks a right or a device."""


class Late(Exception):
    """A rate or a delay is wrong, which a busy machine can cause."""


def sh(command, check=True):
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if check and done.returncode:
        raise AssertionError(f"{command}: {done.stderr.strip()}")
    return done


def within(side, work):
    """Runs work in a thread of a namespace; returns its result."""
    result = []

    def run():
        with open(f"/run/netns/{PREFIX}{side}") as file:
            if LIBC.setns(file.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        result.append(work())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(120)
    assert result, f"work in {side} failed"
    return result[0]


def open_in(side, kind, family=socket.AF_INET, protocol=0):
    one = within(side, lambda: socket.socket(family, kind, protocol))
    one.settimeout(20)
    return one


class World:
    """Two machines, near and far, with two links between them; car is another machine with one."""

    def __init__(self, squall):
        self.squall, self.work, self.processes, self.sides = squall, tempfile.mkdtemp(), [], []

    def side(self, name):
        if sh(f"ip netns add {PREFIX}{name}", check=False).returncode:
            raise Skip("network namespaces are not permitted here")
        self.sides.append(name)
        self.ip(name, "link set lo up")

    def ip(self, side, command, check=True):
        return sh(f"ip -n {PREFIX}{side} {command}", check)

    def link(self, name, near, far, number, rate):
        made = sh(f"ip link add {name} netns {PREFIX}{near} type veth peer name {name} netns {PREFIX}{far}", check=False)
        if made.returncode:
            raise Skip("veth links are not possible here")
        for side, last in ((near, 2), (far, 1)):
            self.ip(side, f"addr add 10.177.{number}.{last}/24 dev {name}")
            self.ip(side, f"link set {name} up")
            if rate:
                shaped = f"ip netns exec {PREFIX}{side} tc qdisc add dev {name} root tbf rate {rate} burst 16k latency 40ms"
                if sh(shaped, check=False).returncode:
                    raise Skip("the kernel does not shape links (tc tbf)")

    def build(self):
        self.side("near"), self.side("far")
        if not os.path.exists("/dev/net/tun"):
            raise Skip("there is no /dev/net/tun")
        self.link("wifi0", "near", "far", 1, "20mbit")
        self.link("lte0", "near", "far", 2, "10mbit")
        self.ip("far", "addr add 10.177.0.1/32 dev lo")
        for number, name in ((1, "wifi0"), (2, "lte0")):
            self.ip("near", f"route add default via 10.177.{number}.1 dev {name} metric {number}")

    def start(self, side, args, **more):
        log = open(os.path.join(self.work, f"{side}-{len(self.processes)}.log"), "w+")
        command = ["ip", "netns", "exec", PREFIX + side, self.squall, "tunnel", *args]
        process = subprocess.Popen(command, stdout=log, stderr=log, **more)
        process.log = log.name
        self.processes.append(process)
        return process

    def text(self, process):
        return open(process.log).read()

    def line(self, process, pattern, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.text(process))
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(f"never '{pattern}':\n{self.text(process)}")

    def file(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def exit(self, text=""):
        file = self.file("exit.toml", f"""
token = "{TOKEN}"
metrics = "127.0.0.1:9464"
[listen]
address = "0.0.0.0:4433"
state = "exit.pem"
[tun]
address = ["{EXIT}/24", "{EXIT6}/64"]
{text}""")
        process = self.start("far", [file])
        self.pin = self.line(process, "fingerprint ([0-9a-f]+)").group(1)
        return process

    def entry(self, side="near", to="10.177.0.1:4433", tun=f"{ENTRY}/24,{ENTRY6}/64", token=TOKEN, more=()):
        args = ["--to", to, "--pin", self.pin, "--token", token, "--tun", tun, "--metrics", "127.0.0.1:9464", *more]
        return self.start(side, args)

    def pair(self, text="", more=("--interface", "wifi0", "--interface", "lte0")):
        exit, entry = self.exit(text), self.entry(more=more)
        self.line(entry, "flow 'tun.default' goes to")
        return exit, entry

    def status(self, side):
        def get():
            connection = http.client.HTTPConnection("127.0.0.1", 9464, timeout=10)
            connection.request("GET", "/status")
            return json.load(connection.getresponse())
        return within(side, get)

    def flow(self, side, name):
        return next(flow for flow in self.status(side)["flows"] if flow["name"] == name)

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        self.processes.clear()

    def clean(self):
        self.stop()
        for side in self.sides:
            sh(f"ip netns del {PREFIX}{side}", check=False)
        sh(f"rm -rf {self.work}", check=False)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def ping(world, side, address, tries=30):
    """The round trip of an echo in seconds; asks again until there is an answer."""
    v6 = ":" in address
    family, protocol = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if v6 else (socket.AF_INET, socket.IPPROTO_ICMP)
    one = open_in(side, socket.SOCK_RAW, family, protocol)
    one.settimeout(0.5)
    request, answer = (128, 129) if v6 else (8, 0)
    for number in range(tries):
        body = struct.pack("!HH", os.getpid() & 0xFFFF, number) + b"squall" * 9
        head = struct.pack("!BBH", request, 0, 0)
        head = head if v6 else struct.pack("!BBH", request, 0, checksum(head + body))
        begin = time.monotonic()
        one.sendto(head + body, (address, 0))
        try:
            while True:
                got, _ = one.recvfrom(2000)
                got = got if v6 else got[(got[0] & 15) * 4:]
                if got[0] == answer and got[4:] == body:
                    return time.monotonic() - begin
        except TimeoutError:
            continue
    raise AssertionError(f"{side} has no echo of {address}")


class Transfer:
    """Random bytes by TCP from one side to an address of another; the arrivals are counted in tenths of a second."""

    def __init__(self, source, target, address, megabytes, port=5001):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.data = os.urandom(megabytes * 1_000_000)
        listener = open_in(target, socket.SOCK_STREAM, family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(1)
        self.digest, self.arrived, self.times = hashlib.sha256(), 0, []
        self.receiver = threading.Thread(target=self.receive, args=(listener,), daemon=True)
        self.receiver.start()
        self.sender = open_in(source, socket.SOCK_STREAM, family)
        self.sender.settimeout(90)
        # The default of distributions, whatever this machine has.
        self.sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        self.sender.connect((address, port))
        self.begin = time.monotonic()
        self.feeder = threading.Thread(target=self.feed, daemon=True)
        self.feeder.start()

    def feed(self):
        self.sender.sendall(self.data)
        self.sender.shutdown(socket.SHUT_WR)

    def receive(self, listener):
        connection, _ = listener.accept()
        connection.settimeout(90)
        while True:
            got = connection.recv(1 << 16)
            if not got:
                break
            self.digest.update(got)
            self.arrived += len(got)
            self.times.append((time.monotonic() - self.begin, self.arrived))
        self.seconds = time.monotonic() - self.begin

    def finish(self):
        self.receiver.join(120)
        assert not self.receiver.is_alive(), f"the transfer hangs after {self.arrived} bytes"
        assert self.digest.digest() == hashlib.sha256(self.data).digest(), "the copy differs"
        return self.arrived * 8 / self.seconds / 1e6

    def longest_gap(self):
        times = [at for at, _ in self.times]
        return max(b - a for a, b in zip(times, times[1:]))


def echo_server(side, address, port):
    server = open_in(side, socket.SOCK_DGRAM)
    server.bind((address, port))
    server.settimeout(60)

    def run():
        try:
            while True:
                data, source = server.recvfrom(2000)
                server.sendto(data, source)
        except OSError:
            pass
    threading.Thread(target=run, daemon=True).start()
    return server


def round_trips(side, address, port, count, tos, interval=0.02, size=160):
    """Round trips of datagrams with a type of service, in ms, sorted; lost ones are infinite."""
    one = open_in(side, socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
    one.settimeout(2)
    sent, seen = {}, {}

    def receive():
        try:
            while len(seen) < count:
                data, _ = one.recvfrom(2000)
                seen[struct.unpack("!I", data[:4])[0]] = time.monotonic()
        except OSError:
            pass
    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    for number in range(count):
        sent[number] = time.monotonic()
        one.sendto(struct.pack("!I", number) + bytes(size - 4), (address, port))
        time.sleep(interval)
    thread.join(5)
    return sorted((seen[n] - sent[n]) * 1e3 if n in seen else float("inf") for n in sent)


def both_round_trips(world, port):
    """Round trips of 200 datagrams with EF, and of 200 without at the same time."""
    echo_server("far", EXIT, port)
    results = {}
    threads = [threading.Thread(target=lambda tos=tos: results.update({tos: round_trips("near", EXIT, port, 200, tos)}))
               for tos in (EF, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results[EF], results[0]


def test_echoes_pass_in_both_families(world):
    world.pair()
    for address in (EXIT, EXIT6):
        print(f"  echo of {address} after {ping(world, 'near', address) * 1e3:.1f} ms")
    ping(world, "far", ENTRY6)
    counted = world.flow("near", "tun.default")
    assert counted["end"] == "in" and counted["media"] == "ip" and counted["address"] == "squall0" and counted["attached"], counted
    assert counted["datagrams_in"] >= 3 and counted["datagrams_out"] >= 3, counted
    assert world.status("far")["tun"]["mtu"] == 1300
    top = within("far", lambda: subprocess.run([world.squall, "top", "--once"], capture_output=True, text=True))
    assert "tun.voice" in top.stdout and "tun.default" in top.stdout, top


def test_a_transfer_survives_a_link(world):
    _, entry = world.pair(more=("--interface", "wifi0"))
    one = Transfer("near", "far", EXIT, 10).finish()
    world.stop()
    world.pair()
    both = Transfer("near", "far", EXIT, 15).finish()
    transfer = Transfer("near", "far", EXIT, 15, port=5002)
    time.sleep(1.5)
    world.ip("near", "link set wifi0 down")
    failing = transfer.finish()
    world.ip("near", "link set wifi0 up")
    world.ip("near", "route replace default via 10.177.1.1 dev wifi0 metric 1")
    gap = transfer.longest_gap()
    print(f"  goodput: 20 Mbps link {one:.1f}, with a 10 Mbps link {both:.1f}, the first one failing {failing:.1f} Mbps; "
          f"longest gap {gap:.2f} s")
    if both <= one:
        raise Late(f"a second link adds nothing to {one:.1f} Mbps: {both:.1f}")


def test_datagrams_overtake_a_transfer(world):
    world.pair()
    transfer = Transfer("near", "far", EXIT, 20)
    time.sleep(1)
    marked, plain = both_round_trips(world, 7000)
    transfer.finish()
    print(f"  round trip beside the transfer: EF median {marked[100]:.1f}, p95 {marked[189]:.1f} ms; "
          f"unmarked median {plain[100]:.1f}, p95 {plain[189]:.1f} ms")
    assert world.flow("near", "tun.voice")["datagrams_in"] == 200
    # The transfer waits in a queue of its own; in one queue it delays unmarked datagrams by 120 ms.
    if max(marked[100], plain[100]) >= 80:
        raise Late(f"EF takes {marked[100]:.1f} ms, without it {plain[100]:.1f}")


def test_ports_select_classes(world):
    rules = '[[tun.rule]]\nport = "7000-7009"\nprotocol = "udp"\nclass = "voice"\n'
    world.exit(rules)
    file = world.file("entry.toml", f"""
token = "{TOKEN}"
metrics = "127.0.0.1:9464"
[connect]
to = "10.177.0.1:4433"
pin = "{world.pin}"
[tun]
address = ["{ENTRY}/24"]
{rules}""")
    entry = world.start("near", [file])
    world.line(entry, "flow 'tun.voice' goes to")
    echo_server("far", EXIT, 7000)
    round_trips("near", EXIT, 7000, 10, 0)
    for side in ("near", "far"):
        assert world.flow(side, "tun.voice")["datagrams_in"] == 10, side


def test_foreign_sources_are_dropped(world):
    world.pair(f'[[tun.peer]]\nname = "tun"\naddress = ["{ENTRY}", "{ENTRY6}"]\n')
    ping(world, "near", EXIT)
    receiver = open_in("far", socket.SOCK_DGRAM)
    receiver.bind((EXIT, 7000))
    receiver.settimeout(1)
    world.ip("near", "addr add 10.98.0.77/32 dev squall0")
    for source in ("10.98.0.77", ENTRY):
        sender = open_in("near", socket.SOCK_DGRAM)
        sender.bind((source, 0))
        sender.sendto(source.encode(), (EXIT, 7000))
    got = [receiver.recvfrom(100)[0]]
    try:
        got.append(receiver.recvfrom(100)[0])
    except TimeoutError:
        pass
    assert got == [ENTRY.encode()], got
    assert world.flow("far", "tun.default")["datagrams_foreign"] == 1
    # Nor does the exit send packets to addresses that no entry owns.
    open_in("far", socket.SOCK_DGRAM).sendto(b"x", ("10.98.0.78", 7000))
    time.sleep(0.3)
    assert world.status("far")["tun"]["unrouted"] == 1


def packet(source, destination, body, protocol=socket.IPPROTO_UDP):
    """An IP packet with the checksums of its body."""
    v6 = ":" in source
    pack = lambda address: socket.inet_pton(socket.AF_INET6 if v6 else socket.AF_INET, address)
    ends = pack(source) + pack(destination)
    at = 6 if protocol == socket.IPPROTO_UDP else 2
    summed = ends + struct.pack("!II", len(body), protocol) + body
    body = body[:at] + struct.pack("!H", checksum(summed + bytes(len(summed) % 2))) + body[at + 2:]
    if v6:
        return struct.pack("!IHBB", 6 << 28, len(body), protocol, 255) + ends + body
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, protocol, 0) + ends
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body


def datagram(source, destination, data=b"hostile!"):
    return packet(source, destination, struct.pack("!HHHH", 53, 7777, 8 + len(data), 0) + data)


def advertisement(destination):
    """A router of high preference, with a prefix for addresses and a name server."""
    of = lambda address: socket.inet_pton(socket.AF_INET6, address)
    router = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0x08, 1800, 0, 0)
    prefix = struct.pack("!BBBBIII", 3, 4, 64, 0xC0, 86400, 14400, 0) + of("2001:db8:bad::")
    server = struct.pack("!BBHI", 25, 3, 0, 1800) + of("2001:db8:bad::53")
    return packet("fe80::bad", destination, router + prefix + server, socket.IPPROTO_ICMPV6)


def watch(side):
    """The packets that leave the tunnel on a side from now on."""
    one = open_in(side, socket.SOCK_DGRAM, socket.AF_PACKET, socket.htons(3))
    one.bind(("squall0", 3))
    one.settimeout(5)

    def until(last):
        seen = []
        while last not in seen:
            got, (_, _, kind, *_) = one.recvfrom(2000)
            if kind != socket.PACKET_OUTGOING:
                seen.append(got)
        return seen
    return until


def test_a_hostile_exit_reaches_nothing_else(world):
    """An exit whose packets are not those of a device."""
    flows = [word for name in ("voice", "video", "default", "background")
             for word in ("--out", f"tun.{name}=udp://127.0.0.1:6000")]
    exit = world.start("far", ["--listen", "0.0.0.0:4433", "--token", TOKEN, *flows])
    world.pin = world.line(exit, "fingerprint ([0-9a-f]+)").group(1)
    target = open_in("far", socket.SOCK_DGRAM)
    target.bind(("127.0.0.1", 6000))
    outside = world.ip("near", "-6 route").stdout
    for tun in (f"{ENTRY}/24", f"{ENTRY}/24,{ENTRY6}/64"):
        entry = world.entry(tun=tun)
        world.line(entry, "flow 'tun.default' goes to")
        for key, expected in (("accept_ra", "0"), ("autoconf", "0"), ("addr_gen_mode", "1"),
                              ("disable_ipv6", "0" if ENTRY6 in tun else "1")):
            got = sh(f"ip netns exec {PREFIX}near cat /proc/sys/net/ipv6/conf/squall0/{key}").stdout.strip()
            assert got == expected, f"{key} is {got}"
        addresses = [one["local"] for device in json.loads(world.ip("near", "-j addr show dev squall0").stdout)
                     for one in device.get("addr_info", [])]
        assert addresses == [one.split("/")[0] for one in tun.split(",")], addresses
        before = world.ip("near", "-6 route").stdout
        assert ENTRY6 in tun or before == outside, before
        arrived = watch("near")
        open_in("near", socket.SOCK_DGRAM).sendto(b"x", (EXIT, 9))
        while True:
            first, reply_to = target.recvfrom(2000)
            if first[len(WHOLE)] >> 4 == 4:
                break
        last = datagram("203.0.113.9", ENTRY, b"is passed")
        for hostile in (advertisement("ff02::1"), advertisement(ENTRY6), datagram(ENTRY, ENTRY), datagram("127.0.0.1", ENTRY),
                        datagram("10.98.0.255", ENTRY), datagram(EXIT, "10.98.0.255"), datagram(EXIT, "224.0.0.251"),
                        datagram(EXIT, "255.255.255.255"), datagram("10.177.1.1", "10.177.1.2"), datagram(EXIT, "127.0.0.1"),
                        datagram("fe80::bad", "ff02::1"), datagram("2600::1", "::1")):
            target.sendto(WHOLE + hostile, reply_to)
            time.sleep(0.02)
        # Cannot be cut into segments.
        target.sendto(struct.pack("!H", 4) + datagram("203.0.113.9", ENTRY, bytes(1000)), reply_to)
        target.sendto(WHOLE + last, reply_to)
        passed = arrived(last)
        assert passed == [last], passed
        assert world.ip("near", "-6 route").stdout == before
        assert sum(world.flow("near", f"tun.{name}")["datagrams_foreign"] for name in ("voice", "default")) == 12
        entry.send_signal(signal.SIGTERM)
        entry.wait(10)


def test_a_hostile_entry_reaches_no_group(world):
    """An entry whose packets are not those of a device."""
    world.exit()
    entry = world.start("near", ["--to", "10.177.0.1:4433", "--pin", world.pin, "--token", TOKEN,
                                 "--in", "tun.default=udp://127.0.0.1:5000"])
    world.line(entry, "flow 'tun.default' goes to")
    arrived, one = watch("far"), open_in("near", socket.SOCK_DGRAM)
    last = datagram(ENTRY, EXIT, b"is passed")
    for hostile in (datagram(ENTRY, "224.0.0.251"), datagram(ENTRY, "255.255.255.255"), datagram(ENTRY, "10.98.0.255"),
                    datagram(ENTRY, "127.0.0.1"), datagram("10.98.0.0", EXIT), datagram("10.98.0.255", EXIT),
                    datagram(EXIT, EXIT), datagram("8.8.8.8", EXIT), datagram(ENTRY6, "ff02::1"), datagram(ENTRY6, "::1"),
                    datagram("fe80::2", EXIT6), advertisement("ff02::1"), datagram(ENTRY6, "::ffff:127.0.0.1"), last):
        one.sendto(WHOLE + hostile, ("127.0.0.1", 5000))
        time.sleep(0.02)
    passed = arrived(last)
    assert passed == [last], passed
    assert world.flow("far", "tun.default")["datagrams_foreign"] == 13


def test_entries_have_their_own_addresses(world):
    world.side("car")
    world.link("car0", "car", "far", 3, None)
    world.exit(f"""
[[tun.peer]]
name = "home"
address = ["{ENTRY}"]
[[tun.peer]]
name = "car"
address = ["10.98.0.3"]
token = "{CAR_TOKEN}"
""")
    home = world.entry(tun=f"{ENTRY}/24,name=home", more=("--interface", "wifi0"))
    world.line(home, "flow 'home.default' goes to")
    # The car's name needs the car's token.
    thief = world.entry("car", "10.177.3.1:4433", "10.98.0.3/24,name=car")
    world.line(thief, "flow 'car.default': .* has no out end of that name")
    thief.send_signal(signal.SIGTERM)
    thief.wait(10)
    # And the car's token carries no one else's packets.
    thief = world.entry("car", "10.177.3.1:4433", f"{ENTRY}/24,name=home", CAR_TOKEN)
    world.line(thief, "flow 'home.default': .* has no out end of that name")
    thief.send_signal(signal.SIGTERM)
    thief.wait(10)
    car = world.entry("car", "10.177.3.1:4433", "10.98.0.3/24,name=car", CAR_TOKEN)
    world.line(car, "flow 'car.default' goes to")
    ping(world, "near", EXIT), ping(world, "car", EXIT)
    ping(world, "far", ENTRY), ping(world, "far", "10.98.0.3")
    assert world.flow("far", "home.default")["datagrams_in"] and world.flow("far", "car.default")["datagrams_in"]


def test_a_reload_changes_peers(world):
    peer = '[[tun.peer]]\nname = "tun"\naddress = ["{}"]\n'
    exit, _ = world.pair(peer.format(ENTRY))
    ping(world, "near", EXIT)
    file = os.path.join(world.work, "exit.toml")
    before = open(file).read()
    for address, reaches in (("10.98.0.99", False), (ENTRY, True)):
        with open(file, "w") as changed:
            changed.write(before.replace(f'address = ["{ENTRY}"]', f'address = ["{address}"]'))
        reloads = world.text(exit).count("the configuration was reloaded")
        exit.send_signal(signal.SIGHUP)
        world.line(exit, f"(?s)(the configuration was reloaded.*){{{reloads + 1}}}")
        try:
            ping(world, "near", EXIT, tries=30 if reaches else 2)
            reached = True
        except AssertionError:
            reached = False
        assert reached == reaches, f"{address} in the file, an echo: {reached}"
    assert world.flow("far", "tun.default")["datagrams_foreign"] == 2


def test_large_packets_are_answered(world):
    world.side("lan")
    world.link("lan0", "lan", "near", 4, None)
    world.exit(f'[[tun.peer]]\nname = "tun"\naddress = ["{ENTRY}", "10.177.4.0/24"]\n')
    file = world.file("entry.toml", f"""
token = "{TOKEN}"
[connect]
to = "10.177.0.1:4433"
pin = "{world.pin}"
interfaces = ["wifi0", "lte0"]
[tun]
address = ["{ENTRY}/24"]
behind = ["10.177.4.0/24"]
""")
    world.line(world.start("near", [file]), "flow 'tun.default' goes to")
    world.ip("lan", "route add default via 10.177.4.1")
    world.ip("far", "route add 10.177.4.0/24 dev squall0")
    sh(f"ip netns exec {PREFIX}near sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'")
    ping(world, "lan", EXIT)
    echo_server("far", EXIT, 7000)
    one = open_in("lan", socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    one.connect((EXIT, 7000))
    one.send(bytes(1400))
    end = time.monotonic() + 10
    while one.getsockopt(socket.IPPROTO_IP, IP_MTU) != 1300:
        assert time.monotonic() < end, "no ICMP message about the size"
        time.sleep(0.05)
    one = open_in("lan", socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    one.connect((EXIT, 7000))
    one.send(bytes(1300 - 28))
    assert len(one.recv(2000)) == 1300 - 28
    # A local program learns it at once.
    one = open_in("near", socket.SOCK_DGRAM)
    one.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    one.connect((EXIT, 7000))
    try:
        one.send(bytes(1400))
        raise AssertionError("a packet larger than the MTU was accepted")
    except OSError as error:
        assert error.errno == 90, error


def test_all_traffic_takes_the_tunnel(world):
    """The commands of docs/tun.md."""
    world.pair(f'[[tun.peer]]\nname = "tun"\naddress = ["{ENTRY}"]\n', more=())
    world.ip("far", "addr add 203.0.113.9/32 dev lo")
    for command in ("route add default dev squall0 table 98", "rule add to 10.177.0.1 lookup main priority 98",
                    "rule add lookup main suppress_prefixlength 0 priority 99", "rule add lookup 98 priority 100"):
        world.ip("near", command)
    ping(world, "near", "203.0.113.9")
    # The tunnel does not run through itself, and connects again with these rules.
    before = world.flow("near", "tun.default")["datagrams_in"]
    time.sleep(2)
    status = world.status("near")
    assert status["tun"]["looped"] == 0, status["tun"]
    assert sorted(path["name"] for path in status["sessions"][0]["paths"]) == ["lte0", "wifi0"], status["sessions"]
    assert world.flow("near", "tun.default")["datagrams_in"] - before < 10
    world.processes[-1].send_signal(signal.SIGTERM)
    world.processes[-1].wait(10)
    entry = world.entry(tun=f"{ENTRY}/24")
    world.line(entry, "flow 'tun.default' goes to")
    world.ip("near", "route add default dev squall0 table 98")
    ping(world, "near", "203.0.113.9")


def test_without_the_right_there_is_one_line(world):
    args = ["--to", "127.0.0.1:1", "--token", TOKEN, "--tun", f"{ENTRY}/24"]
    command = ["ip", "netns", "exec", PREFIX + "near", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
               world.squall, "tunnel", *args]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except FileNotFoundError:
        print("  not tried: there is no setpriv")
        return
    if done.returncode in (126, 127):
        print("  not tried: the program cannot be read by other users")
        return
    expected = "squall: the TUN device 'squall0' cannot be used: it needs root or CAP_NET_ADMIN\n"
    assert (done.returncode, done.stderr) == (1, expected), done


def measure_wire(world):
    """Packets of QUIC for a packet of the device, by its size."""
    world.pair(more=("--interface", "wifi0"))
    time.sleep(5)  # The path MTU is found.
    echo = open_in("far", socket.SOCK_DGRAM)
    echo.bind((EXIT, 7000))
    one = open_in("near", socket.SOCK_DGRAM)
    counter = f"/sys/class/net/wifi0/statistics/tx_packets"
    count = lambda: int(sh(f"ip netns exec {PREFIX}near cat {counter}").stdout)
    for size in (1280, 1300, 1310, 1316, 1320, 1324, 1328):
        world.ip("near", f"link set squall0 mtu {size}")
        before = count()
        for _ in range(200):
            one.sendto(bytes(size - 28), (EXIT, 7000))
            time.sleep(0.002)
        time.sleep(0.5)
        print(f"  {size} bytes: {(count() - before) / 200:.2f} packets each")


MODES = [
    (("wifi0",), "squall", "true", "500ms"),
    (("wifi0", "lte0"), "squall", "true", "200ms"),
    (("wifi0", "lte0"), "squall", "true", "500ms"),
    (("wifi0", "lte0"), "squall", "true", "1s"),
    (("wifi0", "lte0"), "squall", "false", "500ms"),
    (("wifi0", "lte0"), "minrtt", "true", "500ms"),
    (("wifi0", "lte0"), "minrtt", "false", "500ms"),
    (("wifi0", "lte0"), "ecf", "true", "500ms"),
    (("wifi0", "lte0"), "blest", "true", "500ms"),
]


def measure_modes(world):
    """TCP inside, by scheduler, order and latency, and beside it round trips of datagrams with EF and without."""
    for number, (links, scheduler, order, latency) in enumerate(MODES):
        treatment = f'[tun.class.default]\norder = {order}\nlatency = "{latency}"\n'
        world.exit(treatment)
        file = world.file("entry.toml", f"""
token = "{TOKEN}"
scheduler = "{scheduler}"
[connect]
to = "10.177.0.1:4433"
pin = "{world.pin}"
interfaces = {json.dumps(links)}
[tun]
address = ["{ENTRY}/24"]
{treatment}""")
        entry = world.start("near", [file])
        world.line(entry, "flow 'tun.default' goes to")
        transfer = Transfer("near", "far", EXIT, 20)
        time.sleep(1)
        echo_server("far", EXIT, 7100 + number)
        plain = round_trips("near", EXIT, 7100 + number, 100, 0)
        marked = round_trips("near", EXIT, 7100 + number, 100, EF)
        goodput = transfer.finish()
        world.stop()
        print(f"  {'+'.join(links)}, {scheduler}, order {order}, latency {latency}: {goodput:.1f} Mbps; round trip: "
              f"{plain[50]:.0f} ms, p95 {plain[94]:.0f}; EF {marked[50]:.0f} ms, p95 {marked[94]:.0f}", flush=True)


def measure_marked(world):
    """Round trips with EF and without beside a transfer, by scheduler."""
    for number, scheduler in enumerate(("squall", "minrtt", "ecf")):
        world.exit()
        world.entry(more=("--interface", "wifi0", "--interface", "lte0", "--scheduler", scheduler))
        world.line(world.processes[-1], "flow 'tun.default' goes to")
        transfer = Transfer("near", "far", EXIT, 25)
        time.sleep(1)
        marked, plain = both_round_trips(world, 7200 + number)
        inside = [world.flow("far", name)["latency"]["p50_us"] / 1e3 for name in ("tun.voice", "tun.default")]
        goodput = transfer.finish()
        world.stop()
        print(f"  {scheduler}: {goodput:.1f} Mbps; EF median {marked[100]:.0f} ms, p95 {marked[189]:.0f}; unmarked "
              f"{plain[100]:.0f} ms, p95 {plain[189]:.0f}; through the tunnel, one way {inside[0]:.0f} and "
              f"{inside[1]:.0f} ms", flush=True)


def measure_wireguard(world):
    """TCP in WireGuard: without a tunnel, and over a flow of one, by links and order. WIREGUARD names the program."""
    program = os.environ["WIREGUARD"]
    keys = [sh("wg genkey").stdout.strip() for _ in range(2)]
    public = [subprocess.run(["wg", "pubkey"], input=key, capture_output=True, text=True).stdout.strip() for key in keys]
    world.file("near.key", keys[0]), world.file("far.key", keys[1])

    def wireguard(side, own, peer, more):
        script = f"""mkdir -p /run/wireguard; mount -t tmpfs tmpfs /run/wireguard; {program} -f wg0 & sleep 1
            wg set wg0 listen-port 51820 private-key {world.work}/{side}.key peer {peer} {more}
            ip address add {own}/24 dev wg0; ip link set wg0 mtu 1280 up; wait"""
        command = ["ip", "netns", "exec", PREFIX + side, "unshare", "-m", "sh", "-c", script]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        return process

    for number, (order, links) in enumerate([(None, ()), ("false", ("wifi0",)), ("false", ("wifi0", "lte0")),
                                             ("true", ("wifi0", "lte0"))]):
        endpoint = "10.177.1.1:51820" if order is None else "127.0.0.1:51821"
        if order:
            exit = world.start("far", ["--listen", "0.0.0.0:4433", "--token", TOKEN,
                                       "--out", f"wg=udp://127.0.0.1:51820,order={order}"])
            pin = world.line(exit, "fingerprint ([0-9a-f]+)").group(1)
            interfaces = [word for link in links for word in ("--interface", link)]
            entry = world.start("near", ["--to", "10.177.0.1:4433", "--pin", pin, "--token", TOKEN, *interfaces,
                                         "--in", f"wg=udp://127.0.0.1:51821,latency=500ms,order={order}"])
            world.line(entry, "flow 'wg' goes to")
        ends = [wireguard("far", "10.9.0.1", public[0], "allowed-ips 10.9.0.2/32"),
                wireguard("near", "10.9.0.2", public[1], f"endpoint {endpoint} allowed-ips 10.9.0.1/32")]
        time.sleep(2)
        try:
            ping(world, "near", "10.9.0.1")
            goodput = Transfer("near", "far", "10.9.0.1", 15, port=5200 + number).finish()
        finally:
            for end in ends:
                os.killpg(end.pid, signal.SIGKILL)
                end.wait()
            world.stop()
        time.sleep(1)
        print(f"  WireGuard, {'no tunnel, wifi0' if order is None else f'{links}, order {order}'}: {goodput:.1f} Mbps", flush=True)


def measure_links(world):
    """TCP without a tunnel over each link."""
    for number in (1, 2):
        goodput = Transfer("near", "far", f"10.177.{number}.1", 15, port=5100 + number).finish()
        print(f"  link {number}: {goodput:.1f} Mbps", flush=True)


def main():
    squall, names = os.path.abspath(sys.argv[1]), sys.argv[2:]
    tests = {name: one for name, one in globals().items() if name.startswith(("test_", "measure_"))}
    chosen = names or [name for name in tests if name.startswith("test_")]
    for name in chosen:
        world = World(squall)
        try:
            if os.geteuid():
                raise Skip("needs root")
            world.build()
            print(f"{name}:", flush=True)
            tests[name](world)
        except Skip as why:
            print(f"skipped: {why}")
            return 77
        except Late as why:
            print(f"late: {why}")
            return 75
        except BaseException:
            for process in world.processes:
                print(f"--- {process.log}\n{world.text(process)}", file=sys.stderr)
            raise
        finally:
            world.clean()
    print("all as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
