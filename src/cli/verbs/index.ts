/** All verbs in the order in which help lists them. To add a verb, create a file here and add it to the list. */
import type { Verb } from "../verb.js";
import { agents } from "./agents.js";
import { answer } from "./answer.js";
import { backup } from "./backup.js";
import { cancel } from "./cancel.js";
import { compact } from "./compact.js";
import { conversations } from "./conversations.js";
import { deleteVerb } from "./delete.js";
import { erase } from "./erase.js";
import { demo } from "./demo.js";
import { diff } from "./diff.js";
import { doctor } from "./doctor.js";
import { enqueue } from "./enqueue.js";
import { exportVerb } from "./export.js";
import { fork } from "./fork.js";
import { importVerb } from "./import.js";
import { init } from "./init.js";
import { journal } from "./journal.js";
import { keygen } from "./keygen.js";
import { label } from "./label.js";
import { log } from "./log.js";
import { mcp } from "./mcp.js";
import { migrate } from "./migrate.js";
import { pin } from "./pin.js";
import { prune } from "./prune.js";
import { queue } from "./queue.js";
import { recover } from "./recover.js";
import { rekey } from "./rekey.js";
import { repair } from "./repair.js";
import { requeue } from "./requeue.js";
import { restore } from "./restore.js";
import { rewind } from "./rewind.js";
import { run } from "./run.js";
import { search } from "./search.js";
import { sessions } from "./sessions.js";
import { show } from "./show.js";
import { stats } from "./stats.js";
import { status } from "./status.js";
import { ui } from "./ui.js";
import { verify } from "./verify.js";
import { watch } from "./watch.js";
import { workers } from "./workers.js";
import { worker } from "./worker.js";

export const VERBS: readonly Verb[] = [
  status,
  sessions,
  log,
  show,
  diff,
  search,
  agents,
  conversations,
  journal,
  watch,
  ui,
  queue,
  workers,
  stats,
  fork,
  rewind,
  restore,
  label,
  pin,
  deleteVerb,
  run,
  recover,
  enqueue,
  worker,
  answer,
  cancel,
  requeue,
  backup,
  verify,
  repair,
  prune,
  erase,
  rekey,
  compact,
  exportVerb,
  importVerb,
  init,
  keygen,
  migrate,
  doctor,
  mcp,
  demo,
];
