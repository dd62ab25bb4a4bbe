"""Sends the requests of one file and writes the replies into another: run as an agent, and as an evaluator after it.

Arguments: REQUESTS REPLIES ACCESS. The agent finds the model by PROXY_URL and OPENAI_API_KEY, and keeps both in ACCESS
for the evaluator. In a request, `@workspace@`, `@quoted-workspace@`, `@home@` and `@key@` are replaced.
"""

import json
import os
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import quote

requests, replies, access = map(Path, sys.argv[1:])
if access.exists():
    url, key = json.loads(access.read_text())
else:
    url, key = os.environ["PROXY_URL"], os.environ["OPENAI_API_KEY"]
    access.write_text(json.dumps([url, key]))

written = requests.read_text()
names = {
    "@workspace@": os.getcwd(),
    "@quoted-workspace@": quote(os.getcwd()),
    "@home@": os.environ["HOME"],
    "@key@": key,
}
for name, value in names.items():
    written = written.replace(name, value)
got = []
for method, path, headers, body in json.loads(written):
    connection = HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request(method, path, body.encode(), headers)
    answer = connection.getresponse()
    returned = {name.lower(): value for name, value in answer.getheaders()}
    got.append([answer.status, returned, answer.read().decode()])
    connection.close()
replies.write_text(json.dumps(got))
