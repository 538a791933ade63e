"""Drives a headless Chromium over the DevTools protocol's pipe; standard library only."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium():
    return os.environ.get("CHROMIUM") or next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page. `complaints` collects console messages and script errors, `requests` the requests."""

    def __init__(self, chromium, seconds=60):
        self.seconds, self.number, self.buffer, self.events = seconds, 0, b"", []
        self.complaints, self.requests = [], []
        self.profile = tempfile.mkdtemp(prefix="normlab-chromium-")
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def take_pipes():  # Chromium reads commands from 3 and writes replies to 4
            first, second = os.dup(to_browser), os.dup(from_browser)
            os.dup2(first, 3)
            os.dup2(second, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        command = [chromium, "--headless=new", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
                   "--disable-background-networking", "--disable-dev-shm-usage", "--user-data-dir=" + self.profile]
        if os.geteuid() == 0:
            command.append("--no-sandbox")
        self.process = subprocess.Popen(command, preexec_fn=take_pipes, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _message(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read_end], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.read_end, 1 << 20) if ready else b""
            if not chunk:
                raise RuntimeError("the browser is silent or gone")
            self.buffer += chunk
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        method, data = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(data["exceptionDetails"].get("exception", {}).get("description", str(data)))
        elif method == "Log.entryAdded":
            self.complaints.append(data["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and data["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([part.get("value") for part in data["args"]]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(data["request"]["url"])
        return message

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.seconds
        while True:
            answer = self._message(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(method + ": " + answer["error"]["message"])
                return answer["result"]
            self.events.append(answer.get("method"))

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def look(self, scheme="light", media=""):
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        deadline = time.monotonic() + self.seconds
        while "Page.loadEventFired" not in self.events:
            self.events.append(self._message(deadline).get("method"))

    def value(self, script):
        """The value of a JavaScript expression, as JSON."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(script + ": " + str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def click(self, selector):
        """Clicks the middle of the element with the mouse."""
        place = self.value("(() => { const e = document.querySelector(%s); e.scrollIntoView({block: 'center'});"
                           " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
                           % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def key(self, name, text=""):
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32}
        code = codes.get(name, ord(name[0].upper()))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, code=name, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, code=name, windowsVirtualKeyCode=code)

    def type(self, text):
        for letter in text:
            self.key(letter, letter)

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def print_pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
