"""What `docs/deploy` holds: files that their programs read, commands and settings that exist.

No containers are run here. Nodes, database and language models together: `test_two_nodes`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import postgres_server
import pytest
import yaml
from given_commands import fault_of
from http_server import DONE, Exchange, allowed_answers, delta, error, reply, serving

from localrag.config.settings import OpenAISettings, load_settings
from localrag.egress.databases import read_url
from localrag.server.access import Access

DEPLOY = Path(__file__).resolve().parents[1] / "docs" / "deploy"
PAGES = ("README.md", "README.zh-CN.md")
VARIABLES = {"LOCALRAG_LIBRARY", "LOCALRAG_MODELS", "LOCALRAG_CONFIG"}
"""Those of localrag that are no settings, as far as they are used here."""


def fenced(page: str, kind: str) -> list[str]:
    text = (DEPLOY / page).read_text("utf-8")
    return [
        body for tag, body in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M) if tag == kind
    ]


def run(*command: str | Path, **options: Any) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


# -- commands -------------------------------------------------------------------------


def compose() -> dict[str, Any]:
    record: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    return record


def unit() -> dict[str, list[str]]:
    """The values of the unit's settings, all sections together."""
    options: dict[str, list[str]] = {}
    for line in (DEPLOY / "localrag.service").read_text("utf-8").splitlines():
        if line and not line.startswith(("#", "[")):
            name, equals, value = line.partition("=")
            assert equals, line
            options.setdefault(name, []).append(value)
    return options


def commands() -> list[list[str]]:
    """What the containers and the unit run; `test_docs` has the commands of the pages."""
    services = compose()["services"].values()
    arguments = [service["command"] for service in services if service.get("image") == "localrag"]
    return [*arguments, shlex.split(unit()["ExecStart"][0])[1:]]


def test_commands_and_their_options_are_there() -> None:
    assert len(commands()) > 2
    faults = [fault_of(f"localrag {shlex.join(words)}") for words in commands()]
    assert not any(faults), faults


def test_both_languages_show_the_same() -> None:
    for kind in ("sh", "toml"):
        english, chinese = (fenced(page, kind) for page in PAGES)
        assert english == chinese
        assert english

    def bare(page: str) -> list[str]:
        return [re.sub(r"\s+#.*", "", line) for line in "".join(fenced(page, "text")).splitlines()]

    assert bare(PAGES[0]) == bare(PAGES[1])


def test_what_is_installed_is_locked() -> None:
    """By the locks that `scripts/environment.py` installs, torch without what a GPU needs."""
    text = (DEPLOY.parents[1] / "scripts" / "environment.py").read_text("utf-8")
    index = re.search(r'^TORCH_CPU_INDEX = "(.*)"', text, re.M)
    assert index
    lock_names = {"torch-cpu", "binding", "run", "postgres"}
    for name in ("Dockerfile", *PAGES):
        whole = re.sub(r"\\\n\s*", "", (DEPLOY / name).read_text("utf-8"))
        steps = re.findall(r"\bpip (?:install|wheel) .*?(?=&&|$)", whole, re.M)
        locks = [re.findall(r"-r \S*locks/([\w-]+)\.txt", step) for step in steps]
        assert lock_names <= {lock for names in locks for lock in names}, name
        for step, names in zip(steps, locks, strict=True):
            own = step.rstrip().endswith("../..") and "--no-build-isolation" in step
            assert "--no-deps" in step, step
            assert ("--require-hashes" in step) if names else ("--no-index" in step or own), step
            assert (f"--index-url {index[1]}" in step) == ("torch-cpu" in names), step
    locks_there = {path.stem for path in (DEPLOY.parents[1] / "scripts" / "locks").glob("*.txt")}
    assert lock_names <= locks_there


# -- the compose file -----------------------------------------------------------------

SERVICE_KEYS = {
    *("build", "image", "user", "read_only", "cap_drop", "cap_add", "security_opt", "tmpfs"),
    *("networks", "restart", "mem_limit", "environment", "secrets", "command", "depends_on"),
    *("volumes", "ports", "profiles", "healthcheck", "shm_size"),
}
"""Of the Compose specification, as far as they are used here."""


def test_every_service_is_closed_in() -> None:
    whole = compose()
    assert set(whole) <= {"name", "services", "networks", "volumes", "secrets", "x-node"}
    for name, service in whole["services"].items():
        assert set(service) <= SERVICE_KEYS, name
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]
        assert service["mem_limit"]
        # Only the balancer is on a network that leads outside, and is on no other.
        assert service["networks"] == (["outside"] if name == "balancer" else ["inside"])
        assert ("ports" in service) == (name == "balancer")
        assert "user" in service or name == "database"  # which becomes its own by itself
    assert whole["networks"]["inside"] == {"internal": True}


def test_what_a_service_uses_is_declared_and_nothing_else_is() -> None:
    whole = compose()
    secrets = {
        credential
        for definition in whole["services"].values()
        for credential in definition.get("secrets", ())
    }
    assert secrets == set(whole["secrets"])
    mounts = [
        volume
        for definition in whole["services"].values()
        for volume in definition.get("volumes", ())
    ]
    names = {volume.partition(":")[0] for volume in mounts if not volume.startswith(".")}
    assert names == set(whole["volumes"])
    for mount in mounts:
        if mount.startswith("."):
            path = mount.split(":")[0]
            assert mount.endswith(":ro")
            assert (DEPLOY / path).exists() or path in ("./models", "./documents")
    for service in whole["services"].values():
        for value in service.get("environment", {}).values():
            for path in re.findall(r"/run/secrets/(\w+)", value):
                assert path in service["secrets"]
        assert all(
            not re.search("PASSWORD$|KEY$|TOKEN$", variable)
            for variable in service.get("environment", ())
        )
    text = "\n".join(fenced("README.md", "sh"))
    for secret in whole["secrets"].values():
        name = Path(secret["file"]).name
        assert name in text or name.startswith("balancer"), name


def settings_of(environment: Mapping[str, str]) -> Any:
    variables = {
        name: value
        for name, value in environment.items()
        if name.startswith("LOCALRAG_") and name not in VARIABLES
    }
    return load_settings(environment={"LOCALRAG_CONFIG": os.devnull} | variables)


@pytest.mark.parametrize("node", ["node-a", "node-b", "admin"])
def test_the_settings_of_a_node_mean_what_they_say(node: str) -> None:
    environment = compose()["services"][node]["environment"]
    settings = settings_of(environment)
    assert settings.allow_network
    assert not settings.hosted.confirm  # nobody is at a terminal
    assert isinstance(settings.llm, OpenAISettings)
    database = read_url(environment["LOCALRAG_LIBRARY"])
    assert not database.is_local
    assert database.host in settings.database.hosts
    assert database.certificates == "/run/secrets/database_ca"
    services = compose()["services"]
    assert database.host in services
    for url in settings.llm.base_urls:
        name, port = re.findall(r"http://([\w-]+):(\d+)/v1", url)[0]
        assert port in services[name]["command"]


def test_the_settings_file_of_the_pages_means_the_same(tmp_path: Path) -> None:
    (text,) = fenced("README.md", "toml")
    (tmp_path / "config.toml").write_text(text)
    from_file = load_settings(environment={"LOCALRAG_CONFIG": str(tmp_path / "config.toml")})
    from_variables = settings_of(compose()["services"]["node-a"]["environment"])
    assert isinstance(from_file.llm, OpenAISettings)
    assert from_file.llm.calls == from_variables.llm.calls
    assert from_file.hosted == from_variables.hosted
    (library,) = re.findall("LOCALRAG_LIBRARY=(.*)", (DEPLOY / "localrag.service").read_text())
    assert read_url(library).host in from_file.database.hosts


def test_what_models_take_at_once_suffices_for_all_nodes() -> None:
    services = compose()["services"]
    nodes = [service for service in services.values() if "--socket" in service.get("command", ())]
    for model in (services["model-a"], services["model-b"]):
        words = model["command"]
        slots = int(words[words.index("--parallel") + 1])
        context = int(words[words.index("--ctx-size") + 1])
        settings = settings_of(nodes[0]["environment"])
        assert context // slots >= settings.llm.context_window
        assert slots >= len(nodes) * settings.llm.calls


# -- systemd --------------------------------------------------------------------------


def test_the_unit_closes_in_what_it_runs() -> None:
    options = unit()
    assert options["ProtectSystem"] == ["strict"]
    assert options["IPAddressDeny"] == ["any"]
    assert options["CapabilityBoundingSet"] == [""]
    assert options["IPAddressAllow"][0] == "localhost"
    credentials = {credential.partition(":")[0] for credential in options["LoadCredential"]}
    environment = " ".join(options["Environment"])
    assert credentials == set(re.findall(r"%d/([\w-]+)", environment))
    assert not re.search("PASSWORD|TOKEN", environment)
    assert "PGPASSFILE=%d/pgpass" in environment


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("only where systemd is installed")
    text = (DEPLOY / "localrag.service").read_text("utf-8")
    path = tmp_path / "localrag.service"
    path.write_text(re.sub("ExecStart=[^ ]+", f"ExecStart={sys.executable}", text))
    assert run(program, "verify", "--man=no", path) == ""


# -- nginx ----------------------------------------------------------------------------


def on_loopback(folder: Path, port: int, nodes: Mapping[str, str]) -> Path:
    """The balancer's configuration with other places in it."""
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    for address, local_address in nodes.items():
        assert address in text
        text = text.replace(address, local_address)
    text = text.replace("/tmp/", f"{folder}/").replace("/run/secrets", str(folder))
    path = folder / "nginx.conf"
    path.write_text(text.replace("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"))
    return path


def test_nginx_reads_its_configuration(tmp_path: Path) -> None:
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    bare = re.sub("#.*", "", text)
    assert bare.count("{") == bare.count("}")
    for line in filter(None, map(str.strip, bare.splitlines())):
        assert line.endswith((";", "{", "}")), line
    for directive in ("proxy_buffering off;", "proxy_set_header Host $http_host;"):
        assert directive in bare
    sockets = set(re.findall(r"unix:(/run/[\w-]+)/node\.sock", bare))
    mounts = compose()["services"]["balancer"]["volumes"]
    assert sockets == {mount.split(":")[1] for mount in mounts if mount.startswith("socket")}
    programs = [shutil.which("nginx"), shutil.which("openssl")]
    if None in programs:
        pytest.skip("only where nginx is installed")
    certificate(tmp_path, "balancer_certificate", "balancer_key")
    run("nginx", "-t", "-p", tmp_path, "-c", on_loopback(tmp_path, 18443, {}))


def test_the_balancer_logs_no_request() -> None:
    """Neither those that it serves nor those that go wrong: a path names library and document."""
    text = re.sub("#.*", "", (DEPLOY / "nginx.conf").read_text("utf-8"))
    whole, http = text.split("http {")
    assert "access_log off;" in http
    assert re.findall(r"error_log (.*?);", http) == ["stderr emerg"]
    assert "error_log stderr warn;" in whole  # what concerns the balancer itself


def certificate(folder: Path, name: str, key: str) -> None:
    run(
        *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        *("-nodes", "-days", "1", "-subj", "/CN=rag.example.org"),
        *("-addext", "subjectAltName=DNS:rag.example.org"),
        *("-keyout", key, "-out", name),
        cwd=folder,
    )


def test_the_balancer_is_called_as_nodes_are_told() -> None:
    (name,) = re.findall(r"server_name ([\w.]+);", (DEPLOY / "nginx.conf").read_text())
    addresses = [
        words[words.index("--behind-proxy") + 1] for words in commands() if "--socket" in words
    ]
    assert addresses == [f"https://{name}"] * 3  # two containers and the unit
    assert Access("t" * 16, 8765, proxy=f"https://{name}").serves(name)


# -- the database ---------------------------------------------------------------------


def vouched_for(secrets: Path, name: str) -> None:
    """A handshake in memory, in which a client checks the certificate against a name."""
    trusting = ssl.create_default_context(cafile=secrets / "ca.crt")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(secrets / "database.crt", secrets / "database.key")
    outgoing, incoming = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(incoming, outgoing, server_hostname=name)
    server = serving.wrap_bio(outgoing, incoming, server_side=True)
    waiting = [client, server]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)


def test_secrets_roles_and_log_in_are_as_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's own commands make the secrets of a server that is reached with `verify-full`."""
    psycopg = pytest.importorskip("psycopg", reason="only where psycopg is installed")
    if sys.platform == "win32" or shutil.which("openssl") is None:
        pytest.skip("only where OpenSSL and a shell are installed")
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    (block,) = [code for code in fenced("README.md", "sh") if "openssl" in code]
    run("/bin/sh", "-e", "-c", block, cwd=tmp_path)
    secrets = tmp_path / "secrets"
    assert (secrets.stat().st_mode & 0o777) == 0o700
    for private in ("pgpass", "database.key", "ca.key"):
        assert ((secrets / private).stat().st_mode & 0o777) == 0o600
    passwords = dict(line.split(":")[3:5] for line in (secrets / "pgpass").read_text().splitlines())
    assert set(passwords) == {"docs_owner", "docs_node"}
    vouched_for(secrets, "database")
    with pytest.raises(ssl.SSLCertVerificationError):
        vouched_for(secrets, "elsewhere")
    with postgres_server.running(tmp_path / "server") as url:
        place = read_url(f"{url}#x")
        with psycopg.connect(url, autocommit=True) as administrator:
            for statement in (DEPLOY / "roles.sql").read_text().split(";"):
                if statement.strip():
                    administrator.execute(statement)
            for account, password in passwords.items():
                administrator.execute(f"ALTER ROLE {account} PASSWORD '{password}'")
            data = Path(administrator.execute("SHOW data_directory").fetchone()[0])
            for name in ("database.crt", "database.key"):
                shutil.copy(secrets / name, data)
                (data / name).chmod(0o600)
                os.chown(data / name, data.stat().st_uid, data.stat().st_gid)
            rules = (DEPLOY / "pg_hba.conf").read_text().replace("peer", "trust")
            try:
                administrator.execute("ALTER SYSTEM SET ssl_cert_file = 'database.crt'")
                administrator.execute("ALTER SYSTEM SET ssl_key_file = 'database.key'")
                administrator.execute("ALTER SYSTEM SET ssl = on")
                tls = {"sslmode": "verify-full", "sslrootcert": str(secrets / "ca.crt")}
            except psycopg.errors.InvalidParameterValue:  # built without, as the tests' own is
                rules, tls = rules.replace("hostssl", "host"), {"sslmode": "disable"}
            (data / "pg_hba.conf").write_text(rules)
            administrator.execute("SELECT pg_reload_conf()")

        pgpass = secrets / "pgpass"
        pgpass.write_text(pgpass.read_text().replace(":5432:", f":{place.port}:"))

        def connect(**changes: str) -> Any:
            parameters = {
                "host": "database",
                "hostaddr": "127.0.0.1",
                "port": str(place.port),
                "user": "docs_node",
                "dbname": "docs",
                "passfile": str(pgpass),
                **tls,
            }
            return psycopg.connect(**(parameters | changes), connect_timeout=5)

        with connect() as node, connect(user="docs_owner") as owner_:
            assert node.info.user == "docs_node"
            assert owner_.execute("SELECT has_database_privilege('docs', 'CREATE')").fetchone()[0]
            query = "SELECT pg_has_role('localrag_member', 'MEMBER'), rolsuper FROM pg_roles "
            row = node.execute(query + "WHERE rolname = current_user").fetchone()
            assert row == (True, False)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                node.execute("CREATE SCHEMA localrag")
        encrypted = [{"sslmode": "disable"}, {"host": "elsewhere"}] if "sslrootcert" in tls else []
        for wrong in (
            *encrypted,
            {"passfile": os.devnull},
            {"dbname": "postgres"},
            {"user": "postgres"},
        ):
            with pytest.raises(psycopg.OperationalError):
                connect(**wrong)


# -- all of it on loopback ------------------------------------------------------------

PROGRAM = """
from fakes import HashEmbedder
from localrag import __main__, factory
factory.make_embedder = lambda *_: HashEmbedder()
__main__.main()
"""
TOKEN = "a-token-of-this-test-alone"
NAME = "rag.example.org"
ANSWER = [f"word{number} " for number in range(20)] + ["It was opened in 1907 [1]."]


HEARD = threading.Event()
"""Set once whoever asks has heard the first words of an answer."""
WORD_BY_WORD: list[bool] = []
"""Of each answer, whether its first words were heard before the last were written."""


def model(exchange: Exchange) -> None:
    """A language model that writes on once its first words have been heard."""
    body = exchange.heard.json
    if choices := allowed_answers(body):
        reply(json.dumps({"answer": choices[0]}))(exchange)
    elif body.get("stream"):
        exchange.begin(Content_Type="text/event-stream", Transfer_Encoding="chunked")
        for number, part in enumerate((*map(delta, ANSWER), DONE, b"")):
            if number == len(ANSWER) // 2:
                WORD_BY_WORD.append(HEARD.wait(60))
            exchange.write(b"%x\r\n%s\r\n" % (len(part), part))
        exchange.close_connection = True
    else:
        reply("".join(ANSWER))(exchange)


@contextmanager
def started(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_it_answers(http: httpx.Client, path: str) -> None:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if http.get(path).status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail(f"{http.base_url}{path} does not answer")


def test_two_nodes(postgres: str, tmp_path: Path) -> None:
    """Nodes, database and models as processes; the balancer, too, where it is installed."""
    nginx = shutil.which("nginx")
    places = {name: tmp_path / name for name in ("admin", "a", "b")}

    def environment(node: str) -> dict[str, str]:
        own = {f"XDG_{kind}_HOME": str(places[node] / kind) for kind in ("CACHE", "STATE", "DATA")}
        variables = {
            "LOCALRAG_LIBRARY": f"{postgres}#{tmp_path.name}",
            "LOCALRAG_CONFIG": str(tmp_path / "none.toml"),
            "LOCALRAG_TOKEN": TOKEN,
            "LOCALRAG_LLM_BACKEND": "openai",
            "LOCALRAG_LLM_BASE_URL": json.dumps([f"{entry.url}/v1" for entry in models]),
            "LOCALRAG_LLM_CALLS": "2",
            "PYTHONPATH": str(Path(__file__).parent),
        }
        return os.environ | own | variables

    def command(*words: str) -> list[str]:
        return [sys.executable, "-c", PROGRAM, *words]

    with ExitStack() as stack:
        models = [stack.enter_context(serving(model)) for _ in range(2)]
        (tmp_path / "harbour.txt").write_text("The old harbour was opened in 1907 by the sea.\n")
        run(*command("add", str(tmp_path / "harbour.txt")), env=environment("admin"))
        ports = {"a": free_port(), "b": free_port()}
        nodes, ways = {}, {}
        for node, port in ports.items():
            words = ("serve", "--port", str(port), "--behind-proxy", f"https://{NAME}")
            nodes[node] = stack.enter_context(started(command(*words), environment(node)))
            fields = {"authorization": f"Bearer {TOKEN}", "host": NAME}
            http = httpx.Client(
                base_url=f"http://127.0.0.1:{port}", headers=fields, timeout=60, trust_env=False
            )
            ways[node] = stack.enter_context(http)
        for http in ways.values():
            until_it_answers(http, "/healthz")
        if nginx is not None:
            ways["balancer"] = stack.enter_context(balanced(nginx, tmp_path, ports))

        def search(http: httpx.Client) -> Any:
            response = http.post("/api/search", json={"question": "harbour by the sea"})
            assert response.status_code == 200, response.text
            return response.json()["passages"]

        def ask(http: httpx.Client) -> str:
            """The answer, which comes word by word and not at its end."""
            text = ""
            HEARD.clear()
            WORD_BY_WORD.clear()
            body = {"question": "When was the harbour opened?"}
            with http.stream("POST", "/api/ask", json=body) as stream:
                assert stream.status_code == 200, stream.read()
                for line in stream.iter_lines():
                    if line.startswith("data: ") and '"text"' in line:
                        HEARD.set()
                        text += json.loads(line[6:]).get("text", "")
            assert WORD_BY_WORD == [True]
            return text

        first = search(ways["a"])
        assert "1907" in first[0]["text"]
        for http in ways.values():
            assert search(http) == first
            assert "opened in 1907" in ask(http)
        assert all(entry.requests for entry in models)

        models[0].respond = error(503, "it is gone")
        nodes["a"].kill()
        nodes["a"].wait(60)
        for way in ways.keys() - {"a"}:
            for _ in range(2):
                assert search(ways[way]) == first
                assert "opened in 1907" in ask(ways[way])


@contextmanager
def balanced(nginx: str, folder: Path, ports: Mapping[str, int]) -> Iterator[httpx.Client]:
    """The balancer in front of the nodes, and a client of it that checks its certificate."""
    folder = folder / "balancer"
    folder.mkdir()
    certificate(folder, "balancer_certificate", "balancer_key")
    port = free_port()
    nodes = {
        f"unix:/run/node-{node}/node.sock": f"127.0.0.1:{number}" for node, number in ports.items()
    }
    words = [nginx, "-p", str(folder), "-c", str(on_loopback(folder, port, nodes))]
    with started([*words, "-g", "daemon off;"], os.environ):
        trusting = ssl.create_default_context(cafile=folder / "balancer_certificate")
        fields = {"authorization": f"Bearer {TOKEN}", "host": NAME}
        with httpx.Client(
            base_url=f"https://127.0.0.1:{port}", headers=fields, verify=trusting, timeout=60,
            trust_env=False, transport=Called(NAME, trusting),
        ) as http:  # fmt: skip
            until_it_answers(http, "/healthz")
            yield http


class Called(httpx.HTTPTransport):
    """Checks the certificate for that name, whatever the address is."""

    def __init__(self, name: str, trusting: ssl.SSLContext) -> None:
        super().__init__(verify=trusting, trust_env=False)
        self._name = name

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["sni_hostname"] = self._name
        return super().handle_request(request)
