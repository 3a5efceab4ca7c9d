// Record a training from JavaScript: events are lines of JSON, sent to a service at an offset.
//
//     PROVML_TOKEN=… node record_from_node.mjs http://127.0.0.1:8420
//
// Lines stay in memory until the service has them. After an interruption the service says how much it has, and the rest
// is sent again, so that nothing is lost and nothing is there twice.

import os from "node:os";

class Recorder {
  constructor(url, run, name, model) {
    this.target = `${url}/api/v1/runs/${run}/journals/main`;
    this.bytes = Buffer.alloc(0);
    this.sent = 0;
    this.add({ e: "run", v: 3, run, writer: "main", name, t: now(), model, host: os.hostname() });
  }

  add(event) {
    this.bytes = Buffer.concat([this.bytes, Buffer.from(JSON.stringify(event) + "\n")]);
  }

  async send(attempts = 5) {
    const headers = {
      Authorization: `Bearer ${process.env.PROVML_TOKEN}`,
      "Content-Type": "application/x-ndjson",
    };
    while (this.sent < this.bytes.length) {
      const body = this.bytes.subarray(this.sent);
      let answer;
      try {
        answer = await fetch(this.target, {
          method: "PATCH",
          headers: { ...headers, "Upload-Offset": String(this.sent) },
          body,
        });
      } catch (error) {
        if (--attempts === 0) throw error; // the lines are still here
        await new Promise((resolve) => setTimeout(resolve, 500));
        continue;
      }
      if (!answer.ok && answer.status !== 409) throw new Error(await answer.text());
      this.sent = Number(answer.headers.get("Upload-Offset")); // also after 409: go on from there
    }
  }
}

const now = () => Date.now() / 1000;

const url = process.argv[2] ?? "http://127.0.0.1:8420";
const run = `node-${Date.now()}`;
const recorder = new Recorder(url, run, "line", "least squares");
recorder.add({ e: "begin", at: "training", kind: "training", t: now(), name: "training", values: { learning_rate: 0.1, epochs: 5 } });
let slope = 0;
for (let epoch = 1; epoch <= 5; epoch++) {
  const began = now();
  recorder.add({ e: "begin", at: `training/${epoch}`, kind: "epoch", t: began, index: epoch });
  const loss = [1, 2, 3].map((x) => 2 * x - slope * x).reduce((sum, error) => sum + error * error, 0) / 3;
  slope += 0.1 * (2 - slope) * 3;
  recorder.add({ e: "measured", at: `training/${epoch}`, values: { loss } });
  recorder.add({ e: "done", at: `training/${epoch}`, t: now(), s: now() - began });
  await recorder.send();
}
recorder.add({ e: "done", at: "training", t: now(), s: 1.0 });
recorder.add({ e: "end", t: now(), status: "FINISHED" });
await recorder.send();
console.log(run);
