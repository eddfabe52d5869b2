#!/usr/bin/env python3
"""Runs the pods that the chart makes, as Kubernetes would run them, without Kubernetes.

    tests/packages/pods.py MANIFESTS.yaml WEFT FOLDER

Each pod has a network namespace at one bridge, with the names of services in its /etc/hosts, and a
mount namespace with its volumes; its containers run with its arguments, variables and user.
Probes and preStop are those of the manifests. One line a check and a closing line that counts
them. Needs root in a network namespace and a mount namespace of its own (chart.sh).
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

NAMESPACE = "default"
TOKENS = {"node-token": "a-token-that-nodes-show", "api-token": "a-token-that-clients-show"}
# How long what is waited for may take, on a machine that does much else.
PATIENCE = 120

passed = failed = 0


def check(name, wrong):
    """A line for a check; `wrong` is what is wrong, if anything."""
    global passed, failed
    if wrong:
        failed += 1
        print(f"fail {name}: {wrong}", flush=True)
    else:
        passed += 1
        print(f"pass {name}", flush=True)


def wait_until(what, done):
    """Waits until `done` returns something; its last exception tells why it does not."""
    end, reason = time.monotonic() + PATIENCE, "no"
    while time.monotonic() < end:
        try:
            if got := done():
                return got
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            reason = error
        time.sleep(0.05)
    raise TimeoutError(f"{what}: {reason}")


def run(*command, **more):
    """Runs a command; returns what it says."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


class Cluster:
    """Manifests, and what pods have in common."""

    def __init__(self, manifests, weft, folder):
        self.documents = [one for one in yaml.safe_load_all(Path(manifests).read_text()) if one]
        self.weft, self.folder = weft, Path(folder)
        self.addresses = {}
        run("ip", "link", "add", "pods", "type", "bridge")
        run("ip", "link", "set", "pods", "up")
        run("ip", "addr", "add", "10.244.0.1/24", "dev", "pods")
        self.pods = list(self.described())
        self.write_hosts()

    def named(self, kind, name):
        """A document."""
        return next(d for d in self.documents if d["kind"] == kind and d["metadata"]["name"] == name)

    def described(self):
        """All pods, without their processes."""
        for document in self.documents:
            name, spec = document["metadata"]["name"], document.get("spec", {})
            if document["kind"] == "Deployment":
                yield Pod(self, f"{name}-pod", spec["template"])
            if document["kind"] == "StatefulSet":
                for nth in range(spec["replicas"]):
                    yield Pod(self, f"{name}-{nth}", spec["template"], spec["serviceName"])

    def write_hosts(self):
        """Names of services, and of pods that a service has names for."""
        lines = ["127.0.0.1 localhost"]
        for service in (d for d in self.documents if d["kind"] == "Service"):
            name, wanted = service["metadata"]["name"], service["spec"]["selector"].items()
            for pod in self.pods:
                if wanted <= pod.labels.items():
                    lines.append(f"{pod.address} {name}.{NAMESPACE}.svc")
                    lines.append(f"{pod.address} {pod.name}.{name}.{NAMESPACE}.svc")
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")

    def pod(self, ending):
        """The pod whose name ends so."""
        return next(pod for pod in self.pods if pod.name.endswith(ending))


class Pod:
    """A pod with one container."""

    def __init__(self, cluster, name, template, service=None):
        self.cluster, self.name, self.service = cluster, name, service
        self.labels, self.spec = template["metadata"]["labels"], template["spec"]
        (self.container,) = self.spec["containers"]
        number = len(cluster.addresses) + 2
        self.address = cluster.addresses[name] = f"10.244.0.{number}"
        self.netns, self.process = f"pod{number}", None
        run("ip", "netns", "add", self.netns)
        run("ip", "link", "add", self.netns, "type", "veth", "peer", "name", "eth0", "netns", self.netns)
        run("ip", "link", "set", self.netns, "master", "pods", "up")
        for what in (["addr", "add", f"{self.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            run("ip", "-n", self.netns, *what)

    def environment(self):
        """Its variables; one may refer to those before it."""
        known = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": "/run", "WEFT_LOG_FORMAT": "json"}
        fields = {"metadata.name": self.name, "status.podIPs": self.address}
        for variable in self.container["env"]:
            value = variable.get("value")
            if value is None:
                value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            known[variable["name"]] = self.expanded(value, known)
        return known

    @staticmethod
    def expanded(text, known):
        """With $(NAME) in place of variables."""
        for name, value in known.items():
            text = text.replace(f"$({name})", value)
        return text

    def volume(self, name):
        """The folder of a volume: a claim outlives the pod, all others begin anew."""
        volumes = [one for one in self.spec["volumes"] if one["name"] == name]
        source = volumes[0] if volumes else {"claim": name}
        folder = self.cluster.folder / self.name / name
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        if "configMap" in source:
            for key, text in self.cluster.named("ConfigMap", source["configMap"]["name"])["data"].items():
                (folder / key).write_text(text)
        if "secret" in source:
            for key, text in TOKENS.items():
                path = folder / key
                path.write_text(text)
                os.chown(path, 0, self.spec["securityContext"]["fsGroup"])
                path.chmod(source["secret"]["defaultMode"])
        return folder

    def inside(self, command):
        """A command in the namespaces of the pod, as its user."""
        context = {**self.spec["securityContext"], **self.container["securityContext"]}
        script = [f"mount --bind {self.cluster.folder}/hosts /etc/hosts"]
        for mount in self.container["volumeMounts"]:
            path = mount["mountPath"]
            script += [f"mkdir -p {path}", f"mount --bind {self.volume(mount['name'])} {path}"]
        user = ["setpriv", f"--reuid={context['runAsUser']}", f"--regid={context['fsGroup']}"]
        user += ["--clear-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]
        words = [self.cluster.weft if one == "/usr/bin/weft" else one for one in command]
        script.append('exec "$@"')
        return [
            *("ip", "netns", "exec", self.netns, "unshare", "--mount", "--propagation", "private"),
            *("sh", "-euc", "\n".join(script), "sh", *user, *words),
        ]

    def start(self):
        """Starts its container."""
        known = self.environment()
        words = [self.expanded(one, known) for one in self.container["command"] + self.container["args"]]
        log = (self.cluster.folder / f"{self.name}.log").open("a")
        self.process = subprocess.Popen(self.inside(words), env=known, stdout=log, stderr=log)

    def execute(self, *command):
        """`kubectl exec`: runs a command in the container."""
        return run("nsenter", "-t", str(self.process.pid), "-m", "-n", *self.as_user(command), env=self.environment())

    def as_user(self, command):
        """A command as the user of the container."""
        at = self.inside(command)
        return at[at.index("setpriv") :]

    def probe(self, name):
        """What a probe of it is answered: status and text."""
        get = self.container[name]["httpGet"]
        ports = {one["name"]: one["containerPort"] for one in self.container["ports"]}
        url = f"{get.get('scheme', 'HTTP').lower()}://{self.address}:{ports[get['port']]}{get['path']}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def is_ready(self):
        """Whether the probe of readiness succeeds."""
        return self.probe("readinessProbe")[0] == 200

    def stop(self):
        """Ends it as a kubelet does: preStop first, then SIGTERM; returns what preStop said."""
        said = ""
        if hook := self.container.get("lifecycle", {}).get("preStop"):
            said = self.execute(*hook["exec"]["command"])
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=PATIENCE)
        if code != 0:
            raise OSError(f"{self.name} ends with {code}: {self.log()}")
        return said

    def log(self):
        """The end of what it has logged."""
        return (self.cluster.folder / f"{self.name}.log").read_text()[-2000:]


def life(cluster):
    """Pods start, users move away from those that end, and come back."""
    controller = cluster.pod("control-0-pod")
    anchor, first, second = map(cluster.pod, ["anchor-0", "station-0", "station-1"])
    first.start()
    wait_until("a node answers", lambda: first.probe("livenessProbe")[0] == 200)
    status, text = first.probe("readinessProbe")
    wrong = None if status == 503 and "no controller is connected" in text else f"{status} {text}"
    check("a node without a controller lives and is not ready", wrong)
    for pod in (controller, anchor, second):
        pod.start()
    for pod in (controller, anchor, first, second):
        wait_until(f"{pod.name} is ready", pod.is_ready)
    check("all pods become ready", None)

    def nodes():
        return {one["name"]: one for one in json.loads(controller.execute("/usr/bin/weft", "ctl", "nodes", "--json"))}

    for user in range(1, 11):
        where = ["--anchor", anchor.name, "--node", first.name]
        wait_until("a user", lambda: controller.execute("/usr/bin/weft", "ctl", "user", "add", str(user), *where))
    wait_until("users are there", lambda: nodes()[first.name]["users"] == 10)
    said = first.stop()
    wrong = None if "10 users left" in said and "until it has started again" in said else said
    check("preStop hands users over", wrong)
    there = nodes()
    wrong = None if there[second.name]["users"] == 10 and there[first.name]["cordoned"] else there
    check("they are at the other node, and the one that ends takes none", wrong)
    first.start()
    wait_until("it is back", first.is_ready)
    wait_until("it takes users", lambda: not nodes()[first.name]["cordoned"])
    second.stop()
    there = nodes()
    wrong = None if there[first.name]["users"] == 10 else there
    check("a pod that has started again takes users", wrong)
    controller.stop()
    wait_until("nodes notice", lambda: not first.is_ready())
    wrong = None if first.probe("livenessProbe")[0] == 200 else "it is to be started again"
    check("nodes live without their controller, and are not ready", wrong)
    controller.start()
    for pod in (controller, anchor, first):
        wait_until(f"{pod.name} is ready again", pod.is_ready)
    wait_until("the controller remembers", lambda: nodes()[first.name]["users"] == 10)
    check("a controller that starts again finds its records", None)


def main():
    """Runs the checks."""
    cluster = Cluster(*sys.argv[1:4])
    try:
        life(cluster)
    except (OSError, TimeoutError, StopIteration, subprocess.TimeoutExpired) as error:
        logs = "\n".join(f"{pod.name}: {pod.log()}" for pod in cluster.pods if pod.process)
        check("the life of pods", f"{error}\n{logs}")
    finally:
        for pod in cluster.pods:
            if pod.process and pod.process.poll() is None:
                pod.process.kill()
                pod.process.wait()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
