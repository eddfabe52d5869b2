#!/usr/bin/env python3
"""Drives a page of a node or of a controller in Chromium; tests/end-to-end/page.sh runs it.

Prints `pass NAME`, `fail NAME: WHY` or `skip NAME: WHY` for each check. `stop` and `start`
ask the script to stop the node and to start it at the same address.
"""

import argparse
import json
import pathlib
import subprocess
import time
import traceback
import urllib.parse

from browser import Browser, Failed

parser = argparse.ArgumentParser()
parser.add_argument("kind", choices=["node", "calibrated", "site"])
for name in ("--url", "--work", "--artefacts", "--axe", "--token"):
    parser.add_argument(name, default="")
arguments = parser.parse_args()
work, artefacts = pathlib.Path(arguments.work), pathlib.Path(arguments.artefacts)


def say(line):
    print(line, flush=True)


def check(name):
    """Runs a function as a check of that name."""

    def run(body):
        try:
            body()
            say(f"pass {name}")
        except Failed as error:
            say(f"fail {name}: {error}")
        except Exception:
            say(f"fail {name}: {' | '.join(traceback.format_exc().splitlines()[-3:])}")

    return run


def expect(holds, what):
    if not holds:
        raise Failed(what)


def shown(what):
    """What `weft show` prints as JSON."""
    import os

    answer = subprocess.run(
        [os.environ["WEFT"], "show", what, "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout)


def wait_for_file(name, seconds=120):
    end = time.monotonic() + seconds
    while not (work / name).exists():
        if time.monotonic() > end:
            raise Failed(f"the node did not do it: {name}")
        time.sleep(0.1)


browser = Browser()


def settled():
    """The first look is drawn."""
    browser.wait("the first look", lambda: (browser.text("#state") or "").startswith("live"))


def view(name):
    browser.click(f'nav.tabs a[href="#{name}"]')
    browser.wait(f"view {name}", lambda: browser.run("return !document.getElementById(arguments[0]).hidden", f"view-{name}"))


def violations():
    """What axe-core finds (WCAG 2.2 A and AA, and its best practices)."""
    if not browser.run("return Boolean(window.axe)"):
        # What the policy of the page forbids, the protocol of the tools may do.
        source = pathlib.Path(arguments.axe).read_text()
        browser.devtools("Runtime.evaluate", {"expression": source})
    found = browser.run_async(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document).then((result) => done(result.violations.map((one) =>"
        " `${one.id} at ${one.nodes.slice(0, 3).map((node) => node.target.join(' ')).join(', ')}`)))"
    )
    expect(found == [], "; ".join(found))


def pictures(names):
    """Screenshots at the widths of a screen and of a phone, and both schemes of colours."""
    for width, height, mobile in ((1280, 900, False), (390, 844, True)):
        browser.size(width, height, mobile)
        for dark in (False, True):
            browser.dark(dark)
            for name in names:
                if name:
                    browser.run("location.hash = arguments[0]", name)
                time.sleep(1.3)
                scheme = "dark" if dark else "light"
                name_of_file = (name or "site").replace("/", "-")
                browser.screenshot(artefacts / f"{arguments.kind}-{name_of_file}-{width}-{scheme}.png")
    browser.dark(False)


def fits():
    """Nothing stands beyond the edge of the screen."""
    wide = browser.run("return [document.documentElement.scrollWidth, innerWidth]")
    expect(wide[0] <= wide[1], f"{wide[0]} pixels on a screen of {wide[1]}")


def number(text):
    return int("".join(digit for digit in text if digit.isdigit()))


def of_node():
    url, token = arguments.url, arguments.token
    browser.size(1280, 900)
    browser.open(url)

    @check("the page shows the node")
    def _():
        settled()
        expect(browser.text("#name") == "page", f"the name is {browser.text('#name')}")
        boxes = ["access", "access", "core", "core", "count", "last", "police"]
        names = lambda: browser.run("return [...document.querySelectorAll('#drawing .box .name')].map((one) => one.textContent.trim())")
        browser.wait("its ports and functions", lambda: sorted(names()) == boxes)

    @check("arrows have the rates of a sample")
    def _():
        def rates():
            texts = browser.run("return [...document.querySelectorAll('#drawing .arrow .share')].map((one) => one.textContent)")
            return len([text for text in texts if text.endswith("/s")]) >= 3

        browser.wait("rates at the arrows", rates)
        widths = browser.run("return [...document.querySelectorAll('#drawing .arrow .line')].map((one) => parseFloat(one.style.strokeWidth))")
        expect(max(widths) > 3 > min(widths), f"widths: {widths}")

    @check("figures on the page are those of weft show")
    def _():
        view("counters")
        browser.wait("counters", lambda: browser.text('[data-figure="port.access.rx_packets"]'))
        # A second old at most: what is shown between two questions lies between the answers.
        before = shown("runtime")
        time.sleep(2.5)
        figures = browser.run("return Object.fromEntries([...document.querySelectorAll('[data-figure]')].filter((one) => one.offsetParent).map((one) => [one.dataset.figure, one.textContent]))")
        after = shown("runtime")
        compared = 0
        for kind, list_ in (("port", "ports"), ("function", "functions")):
            for low, high in zip(before[list_], after[list_]):
                for what in ("rx_packets", "rx_bytes", "tx_packets", "packets", "bytes", "drops", "rx_missed"):
                    if what in low and f"{kind}.{low['name']}.{what}" in figures:
                        value = number(figures[f"{kind}.{low['name']}.{what}"])
                        expect(low[what] <= value <= high[what], f"{low['name']} {what}: {low[what]} <= {value} <= {high[what]}")
                        compared += 1
        expect(compared >= 14, f"only {compared} figures were compared")

    @check("drops have their reasons and what to do")
    def _():
        view("drops")
        text = browser.wait("a drop", lambda: browser.text("#view-drops tbody tr:first-child"))
        expect("marker_red" in browser.text("#view-drops") and "Raise the rate" in browser.text("#view-drops"), text)

    @check("the model says what the node could carry, and that it has no calibration")
    def _():
        view("picture")
        text = lambda: browser.text("#headroom") or ""
        browser.wait("a prediction", lambda: "could carry" in text() and "Change first: " in text())
        for part in ("There is no calibration of this machine", "weft bench calibrate", "--calibration FILE", "limited by"):
            expect(part in text(), f"no '{part}' in: {text()}")
        browser.run("document.querySelector('#headroom details').open = true")
        rows = browser.run("return [...document.querySelectorAll('#headroom tbody tr')].map((one) => one.textContent)")
        expect(any("one more worker" in row and "/s" in row for row in rows), f"rows: {rows}")

    @check("a user is found by name, address and tunnel")
    def _():
        view("users")
        for text, name in (("ue-7", "ue-7"), ("10.0.0.4", "ue-3"), ("0x2003", "tunnel-3"), ("10.9.3.231", "idle-999")):
            browser.type("#search", text)
            found = lambda: browser.run("return [...document.querySelectorAll('#user-list > .scroll tbody th')].map((one) => one.textContent)") == [name]
            browser.wait(f"{name} by {text}", found)

    @check("users come in pages")
    def _():
        browser.type("#search", "idle")
        browser.wait("the first page", lambda: "1 to 25" in browser.text("#user-list"))
        browser.run("[...document.querySelectorAll('#user-list button')].find((one) => one.textContent === 'Next').click()")
        browser.wait("the second page", lambda: "26 to 50" in browser.text("#user-list"))

    @check("a user's ways, contexts and rate are shown")
    def _():
        browser.run("location.hash = 'users/ue-1'")
        browser.wait("its contexts", lambda: "count" in (browser.text("#user table") or ""))
        browser.wait("its rate", lambda: "/s" in browser.text("#user table"))
        browser.wait("its ways", lambda: "-> police" in browser.text("#user pre"))

    @check("without the token nothing is traced")
    def _():
        browser.run("[...document.querySelectorAll('#user .watch button')].find((one) => one.textContent === 'Trace').click()")
        browser.wait("the question for the token", lambda: browser.run("return document.querySelector('dialog').open"))
        browser.type("#token-field", token)
        browser.click("dialog button[type=submit]")
        expect(browser.text("#token") == "Token given", browser.text("#token"))

    @check("a trace is drawn on the picture")
    def _():
        browser.run("[...document.querySelectorAll('#user .watch button')].find((one) => one.textContent === 'Trace').click()")
        browser.wait("steps", lambda: browser.run("return document.querySelectorAll('#drawing .step').length >= 3"))
        steps = browser.run("return [...document.querySelectorAll('#detail .steps b')].map((one) => one.textContent)")
        expect(steps[0] == "received at access" and "to count" in steps, f"steps: {steps}")
        browser.screenshot(artefacts / "node-trace-1280-light.png")

    @check("a capture is downloaded as pcapng")
    def _():
        browser.run("location.hash = 'users/ue-2'")
        browser.wait("the user", lambda: "ue-2" in browser.text("#user h2"))
        browser.type("#watch-count", "20")
        browser.run("[...document.querySelectorAll('#user .watch button')].find((one) => one.textContent === 'Capture').click()")
        file = pathlib.Path(browser.folder.name) / "ue-2.pcapng"
        browser.wait("the file", lambda: file.exists() and file.stat().st_size > 0)
        # The type of a section header block (draft-ietf-opsawg-pcapng).
        expect(file.read_bytes()[:4] == bytes.fromhex("0a0d0d0a"), "it is no pcapng file")
        counted = subprocess.run(["tshark", "-r", file, "-T", "fields", "-e", "ip.addr"], capture_output=True, text=True)
        lines = counted.stdout.split("\n")[:-1]
        expect(len(lines) >= 20 and all("10.0.0.3" in line for line in lines), f"tshark: {len(lines)} packets, {counted.stderr}")

    @check("a function moves, and the node says so")
    def _():
        view("moves")
        browser.wait("functions", lambda: "police" in browser.text("#view-moves"))
        browser.run("[...document.querySelectorAll('#view-moves button')].find((one) => one.textContent === 'police').click()")
        browser.wait("the detail", lambda: browser.text("#detail .mover"))
        browser.run("const choice = document.getElementById('run-as'); choice.value = 'thread'; choice.dispatchEvent(new Event('change'))")
        browser.click("#detail .mover button")
        browser.wait("the answer", lambda: "runs as thread" in browser.text("#detail .mover"))
        police = [one for one in shown("runtime")["functions"] if one["name"] == "police"][0]
        expect(police["composition"] == "thread", f"it runs as {police['composition']}")
        browser.wait("the picture says so", lambda: "thread" in browser.text("#drawing"))

    @check("boxes are chosen with the keyboard")
    def _():
        browser.run("document.querySelector('#drawing .box.function').focus()")
        browser.keys("\ue007")
        browser.wait("the detail", lambda: browser.text("#detail h2").startswith("function"))
        pressed = browser.run("return document.querySelector('#drawing .box[aria-pressed=true] .name').textContent.trim()")
        expect(pressed in browser.text("#detail h2"), pressed)
        browser.wait("its history", lambda: browser.run("return document.querySelector('#detail canvas') !== null"))

    @check("a box has what its function keeps of users")
    def _():
        browser.run("location.hash = 'picture'")
        browser.run("[...document.querySelectorAll('#drawing .box.function')].find((one) => one.textContent.includes('count')).dispatchEvent(new Event('click', {bubbles: true}))")
        browser.wait("the detail of count", lambda: "count" in browser.text("#detail h2"))
        browser.wait("contexts of users", lambda: "ue-" in browser.text("#detail .kept"))
        user = browser.run("return document.querySelector('#detail .kept tbody tr').textContent")
        expect("packets" in user, user)

    if arguments.axe:
        for name in ("picture", "users/ue-1", "counters", "drops", "links", "moves", "events"):
            for dark in (False, True):

                @check(f"axe-core finds nothing at {name}{', dark' if dark else ''}")
                def _():
                    browser.dark(dark)
                    browser.run("location.hash = arguments[0]", name)
                    time.sleep(1.5)
                    violations()

        browser.dark(False)
    else:
        say("skip axe-core finds nothing: axe-core is not there, and cannot be had")

    @check("nothing stands beyond the edge of a phone")
    def _():
        browser.size(390, 844, True)
        for name in ("picture", "users/ue-1", "counters", "drops", "links", "moves", "events"):
            browser.run("location.hash = arguments[0]", name)
            time.sleep(0.5)
            try:
                fits()
            except Failed as error:
                raise Failed(f"{name}: {error}") from None
        browser.size(1280, 900)

    pictures(["picture", "users/ue-1", "counters", "drops", "moves", "links"])
    browser.size(1280, 900)
    browser.run("location.hash = 'picture'")

    complaints = [entry for entry in browser.log("browser") if entry["level"] == "SEVERE"]
    # The refusal without a token is the answer to a question.

    @check("there is no error in the console")
    def _():
        expect(complaints == [], json.dumps([one["message"] for one in complaints][:3]))

    @check("the page says that the node is gone, and finds it again")
    def _():
        say("stop")
        wait_for_file("stopped")
        browser.wait("that it is gone", lambda: browser.run("return !document.getElementById('gone').hidden"))
        expect("has not answered" in browser.text("#gone"), browser.text("#gone"))
        browser.screenshot(artefacts / "node-gone-1280-light.png")
        say("start")
        wait_for_file("started")
        browser.wait("that it is back", lambda: browser.run("return document.getElementById('gone').hidden"), 60)
        settled()

    finish(url)


def calibrated():
    """A node that was given a calibration."""
    browser.size(1280, 900)
    browser.open(arguments.url)

    @check("the page says of which machine the calibration is")
    def _():
        settled()
        text = lambda: browser.text("#headroom") or ""
        browser.wait("a prediction", lambda: "could carry" in text())
        browser.wait("the calibration", lambda: "from the calibration of a machine of a test" in text())
        expect("There is no calibration" not in text(), text())
        expect("20 (now " in text(), f"the cost of reception is not the calibration's: {text()}")
        browser.wait("what fusing brings", lambda: "fusing " in browser.run("return document.querySelector('#headroom tbody').textContent"))

    pictures(["picture"])
    browser.size(1280, 900)


def of_site():
    browser.size(1280, 900)
    browser.open(arguments.url)

    @check("the controller's page shows its nodes")
    def _():
        settled()
        browser.wait("the nodes", lambda: "station-b" in browser.text("#nodes"))
        expect("not connected" in browser.text("#nodes"), browser.text("#nodes"))
        expect("not said" in browser.text("#nodes"), f"a version that is not known: {browser.text('#nodes')}")

    def cell(node, title):
        return browser.run(
            "const row = [...document.querySelectorAll('#nodes tbody tr')].find((one) => one.textContent.startsWith(arguments[0]));"
            "return row.querySelector(`[data-title='${arguments[1]}']`).textContent", node, title)

    @check("the controller's page shows what a node carries")
    def _():
        browser.wait("packets of station-b", lambda: cell("station-b", "packets").endswith("/s"))
        expect(cell("station-b", "of capacity").endswith("%"), cell("station-b", "of capacity"))
        expect(cell("station-b", "busy").endswith("%"), cell("station-b", "busy"))
        expect(cell("station-b", "drops").endswith("/s"), cell("station-b", "drops"))
        nothing = [cell("gateway", title) for title in ("packets", "of capacity", "drops", "busy")]
        expect(nothing == ["–"] * 4, f"a node that has not said anything: {nothing}")
        expect("of 1 node" in browser.text("#totals"), browser.text("#totals"))

    def press(label):
        browser.run("document.querySelector(`button[aria-label='${arguments[0]}']`).click()", label)

    def row():
        return browser.run("return [...document.querySelectorAll('#nodes tbody tr')].find((one) => one.textContent.startsWith('station-a')).textContent")

    @check("without the token no node is cordoned")
    def _():
        press("Cordon station-a")
        browser.wait("the question for the token", lambda: browser.run("return document.querySelector('dialog').open"))
        expect("cordoned" not in row(), row())
        browser.type("#token-field", arguments.token)
        browser.click("dialog button[type=submit]")

    @check("a node is cordoned, drained and uncordoned from the page")
    def _():
        press("Cordon station-a")
        browser.wait("that it is cordoned", lambda: "cordoned" in row())
        expect("takes no further users" in browser.text("#nodes"), browser.text("#nodes"))
        press("Uncordon station-a")
        browser.wait("that it is not", lambda: "cordoned" not in row())
        press("Drain station-a")
        browser.wait("that it is drained", lambda: "cordoned" in row())
        browser.wait("what it came to", lambda: "it has none to hand over" in browser.text("#nodes"))

    if arguments.axe:

        @check("axe-core finds nothing at the controller's page")
        def _():
            violations()

    @check("the controller's page fits a phone")
    def _():
        browser.size(390, 844, True)
        time.sleep(0.5)
        fits()

    pictures([""])
    complaints = [entry for entry in browser.log("browser") if entry["level"] == "SEVERE"]

    @check("there is no error in the controller's console")
    def _():
        expect(complaints == [], json.dumps([one["message"] for one in complaints][:3]))

    finish(arguments.url)


def finish(url):
    @check(f"no request of the {arguments.kind}'s page leaves the machine")
    def _():
        here = urllib.parse.urlsplit(url).netloc
        local = ("blob:", "data:", "chrome:", "devtools:")
        asked = browser.asked()
        others = [one for one in asked if not one.startswith(local) and urllib.parse.urlsplit(one).netloc != here]
        expect(len(asked) > 10 and others == [], f"{len(asked)} requests, {others[:3]} elsewhere")


try:
    {"node": of_node, "calibrated": calibrated, "site": of_site}[arguments.kind]()
finally:
    browser.close()
