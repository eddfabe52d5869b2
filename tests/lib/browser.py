"""Chromium without a screen, by the WebDriver protocol (W3C) that chromedriver speaks."""

import base64
import json
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

OPTIONS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
# https://www.w3.org/TR/webdriver2/#elements
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Failed(Exception):
    """What a check expected is not so."""


class Browser:
    """One tab, in a profile of its own that is gone with it."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weft-page-", ignore_cleanup_errors=True)
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for line in self.driver.stdout:
            if " on port " in line and "success" in line:
                port = line.strip().rstrip(".").split()[-1]
                self.base = f"http://127.0.0.1:{port}"
                break
        chrome = {
            "args": [*OPTIONS, f"--user-data-dir={self.folder.name}/profile"],
            "prefs": {"download.default_directory": self.folder.name},
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": chrome,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        session = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.base += f"/session/{session['sessionId']}"
        self.requests = []

    def _ask(self, method, path, body=None):
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(json.load(error)["value"]["message"].splitlines()[0]) from None

    def close(self):
        try:
            self._ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.folder.cleanup()

    def open(self, url):
        self._ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a script's `return`."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script, *arguments):
        """What a script gives to its last argument."""
        return self._ask("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self._ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        self._ask("POST", f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text, clear=True):
        element = self.find(selector)
        if clear:
            self._ask("POST", f"/element/{element}/clear", {})
        self._ask("POST", f"/element/{element}/value", {"text": text})

    def keys(self, *keys):
        """Presses keys one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent ?? null", selector)

    def size(self, width, height, mobile=False):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)

    def dark(self, dark):
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.devtools("Emulation.setEmulatedMedia", {"features": features})

    def devtools(self, command, parameters):
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screenshot(self, file):
        """The whole page, as far as it reaches."""
        shot = self.devtools("Page.captureScreenshot", {"captureBeyondViewport": True})
        with open(file, "wb") as out:
            out.write(base64.b64decode(shot["data"]))

    def log(self, kind):
        return self._ask("POST", "/se/log", {"type": kind})

    def asked(self):
        """Addresses of all requests so far."""
        for entry in self.log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requests.append(message["params"]["request"]["url"])
        return self.requests

    def wait(self, what, holds, seconds=30):
        """Waits until `holds()` is true; its value."""
        end = time.monotonic() + seconds
        while True:
            value = holds()
            if value:
                return value
            if time.monotonic() > end:
                raise Failed(f"{what}: not within {seconds} s")
            time.sleep(0.1)
