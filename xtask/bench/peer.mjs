// graphile-worker, measured the way the queue of ours is: same Postgres, same minute.
//
// node peer.mjs NAME REQUEST, where REQUEST is JSON: url, seconds, out. The result is JSON in the
// file `out`. A run that lost or doubled a job is an error, not a figure.
//
//   pickup   100 jobs per second in an open loop; from the call of addJob to the first
//            instruction of its task, in one process
//   live     64 producers in a process of their own, one addJob per call, while this one works
//   batched  the same with addJobs: 64 producers, 100 jobs per call
//
// Whatever is a choice is made in the peer's favour: tasks do nothing (ours write a row), jobs have
// no queue name and so no order (ours are ordered per conversation), no job key (ours are
// deduplicated), latency counts from the call and not from when it was due, and the settings are
// the best of those that were tried.

import { fork } from "node:child_process";
import { writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const RATE = 100;
const PRODUCERS = 64;
const PER_CALL = 100;
const WARM_UP_MS = 3_000;
const DRAIN_MS = 600_000;
const TASK = "turn";

// Sessions of a producing process, tasks at once and jobs per fetch of the working one.
const PRODUCER_SESSIONS = 16;
const LIVE = {
  concurrentJobs: 64,
  maxPoolSize: 10,
  localQueue: { size: 256, refetchDelay: { durationMs: 5, threshold: 64 } },
  completeJobBatchDelay: 5,
  failJobBatchDelay: 5,
};
const PICKUP = { concurrentJobs: 16, maxPoolSize: 20 };

const quiet = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const now = () => Number(process.hrtime.bigint()) / 1e6;

const [name, text, part] = process.argv.slice(2);
const request = JSON.parse(text);
const settings = (preset) => ({
  ...preset,
  ...request.settings,
  connectionString: request.url,
});

if (part === "produce") {
  await produce();
} else {
  const measurements = { pickup, live: throughput, batched: throughput };
  const result = await measurements[name]();
  writeFileSync(request.out, JSON.stringify(result, null, 2));
  process.exit(0);
}

async function pickup() {
  const begun = new Map();
  const tasks = {
    [TASK]: async ({ number }) => {
      const at = now();
      if (begun.has(number)) throw new Error(`job ${number} was worked twice`);
      begun.set(number, at);
    },
  };
  const preset = { worker: settings(PICKUP) };
  const utils = await makeWorkerUtils({ preset, logger: quiet });
  await utils.migrate();
  const runner = await run({ preset, taskList: tasks, logger: quiet, noHandleSignals: true });
  const called = new Map();
  const send = async (number) => {
    called.set(number, now());
    await utils.addJob(TASK, { number });
  };
  const openLoop = async (from, count) => {
    const calls = [];
    const start = now();
    for (let number = 0; number < count; number++) {
      const wait = start + (number * 1000) / RATE - now();
      if (wait > 0) await sleep(wait);
      calls.push(send(from + number));
    }
    await Promise.all(calls);
  };
  const counted = RATE * request.seconds;
  await openLoop(counted, RATE * 2);
  await openLoop(0, counted);
  await until(() => begun.size === called.size, "not every job was worked");
  await runner.stop();
  await utils.release();
  const latencies = [];
  for (let number = 0; number < counted; number++) {
    latencies.push(begun.get(number) - called.get(number));
  }
  return { picked_up: quantiles(latencies), messages: called.size, settings: PICKUP };
}

async function throughput() {
  const worked = new Map();
  let done = 0;
  const tasks = {
    [TASK]: async ({ number }) => {
      worked.set(number, (worked.get(number) ?? 0) + 1);
    },
  };
  const preset = { worker: settings(LIVE) };
  const utils = await makeWorkerUtils({ preset, logger: quiet });
  await utils.migrate();
  await utils.release();
  const runner = await run({ preset, taskList: tasks, logger: quiet, noHandleSignals: true });
  // Counted when the completion is committed, as ours are.
  runner.events.on("job:complete", () => {
    done += 1;
  });

  const producing = fork(fileURLToPath(import.meta.url), [name, text, "produce"]);
  const produced = new Promise((resolve, reject) => {
    producing.once("message", resolve);
    producing.once("exit", (code) => reject(new Error(`the producers ended with ${code}`)));
  });
  await sleep(WARM_UP_MS);
  const [from, begun] = [done, now()];
  await sleep(request.seconds * 1000);
  const perSecond = ((done - from) * 1000) / (now() - begun);
  const { added } = await produced;

  const pool = new pg.Pool({ connectionString: request.url, max: 1 });
  const left = async () => {
    const answer = await pool.query("select count(*)::int as n from graphile_worker.jobs");
    return answer.rows[0].n;
  };
  await until(async () => (await left()) === 0, "not every job was completed");
  await runner.stop();
  await pool.end();
  const lost = added - worked.size;
  const doubled = [...worked.values()].filter((times) => times > 1).length;
  if (lost !== 0 || doubled !== 0) throw new Error(`${lost} jobs lost, ${doubled} worked twice`);
  return {
    per_second: perSecond,
    messages: added,
    settings: { ...LIVE, ...request.settings, producerSessions: PRODUCER_SESSIONS },
    cores: availableParallelism(),
  };
}

async function produce() {
  const maxPoolSize = request.producerSessions ?? PRODUCER_SESSIONS;
  const preset = { worker: { connectionString: request.url, maxPoolSize } };
  const utils = await makeWorkerUtils({ preset, logger: quiet });
  const end = now() + WARM_UP_MS + request.seconds * 1000;
  let added = 0;
  const one = async () => {
    while (now() < end) {
      await utils.addJob(TASK, { number: added++ });
    }
  };
  const many = async () => {
    while (now() < end) {
      const jobs = Array.from({ length: PER_CALL }, () => ({
        identifier: TASK,
        payload: { number: added++ },
      }));
      await utils.addJobs(jobs);
    }
  };
  await Promise.all(Array.from({ length: PRODUCERS }, name === "batched" ? many : one));
  await utils.release();
  process.send({ added }, () => process.exit(0));
}

async function until(condition, complaint) {
  const end = now() + DRAIN_MS;
  while (!(await condition())) {
    if (now() > end) throw new Error(complaint);
    await sleep(20);
  }
}

function quantiles(latencies) {
  const sorted = latencies.toSorted((a, b) => a - b);
  const at = (q) => sorted[Math.min(sorted.length - 1, Math.ceil(q * sorted.length) - 1)];
  return {
    p50_ms: at(0.5),
    p90_ms: at(0.9),
    p99_ms: at(0.99),
    max_ms: sorted.at(-1),
    count: sorted.length,
    buckets_us: sorted.map((ms) => [Math.round(ms * 1000), 1]),
  };
}
