// ioredis whose increments count once, however often they are sent.
//
//   const { CounterdRedis } = require("./counterd_ioredis");
//   const r = new CounterdRedis(6379, "127.0.0.1", { maxRetriesPerRequest: 10 });
//   await r.incr("19089006004.cntrn");
//
// ioredis sends what was not answered again when it is connected again (autoResendUnfulfilledCommands). A change has a
// number among its arguments, and keeps it: counterd answers a repeat what it answered first.
//
// A command that has a number already keeps it. counterd's own commands are sent by call("COUNTER.DRAIN", "1.cntrn").
//
// ioredis does not send a pipeline again, or a transaction made by multi(), of which it got some replies before the
// connection broke. It rejects the rest with "Command aborted due to connection close". Each of those commands may have
// been made or not, and a new call takes a new number: so where that matters, send single commands, or one COUNTER.MINCRBY.
//
// counterd remembers the 128 highest numbers of a producer, and ioredis may have thousands of commands on their way. So a
// producer gives no number that is 64 above one that is not answered yet; then another producer does.
"use strict";

const { randomBytes } = require("crypto");
const { Redis } = require("ioredis");

// All commands that accept a number.
const CHANGES = new Set(
  `incr incrby decr decrby increx hincrby set getset setnx getdel hset hmset hsetnx mset del unlink hdel
   counter.mincrby counter.mset counter.drain counter.update exec`.split(/\s+/)
);
const WINDOW = 64;

// Whether a command ends in IDMP producer seq [EPOCH epoch].
function hasNumber(args) {
  const is = (fromEnd, word) => args.length > fromEnd - 1 && String(args[args.length - fromEnd]).toUpperCase() === word;
  return is(3, "IDMP") || (is(5, "IDMP") && is(2, "EPOCH"));
}

class Producer {
  constructor() {
    this.id = randomBytes(12).toString("base64url");
    this.next = 1;
    this.unknown = new Set(); // numbers that are not answered yet
  }
  free() {
    return !this.unknown.has(this.next - WINDOW);
  }
  take() {
    this.unknown.add(this.next);
    return this.next++;
  }
}

class Numbers {
  constructor() {
    this.producers = [new Producer()];
  }
  give(command) {
    let producer = this.producers.find((p) => p.free());
    if (!producer) this.producers.push((producer = new Producer()));
    const seq = producer.take();
    command.args.push("IDMP", producer.id, String(seq));
    const known = () => producer.unknown.delete(seq);
    command.promise.then(known, known);
  }
}

const numbered = Symbol("numbered");

class CounterdRedis extends Redis {
  constructor(...args) {
    super(...args);
    this.numbers = new Numbers();
    this.transaction = false; // between MULTI and EXEC, where EXEC takes the number
    this.on("close", () => (this.transaction = false));
  }

  sendCommand(command, stream) {
    const name = command.name.toLowerCase();
    if (name === "multi") this.transaction = true;
    if (name === "exec" || name === "discard") this.transaction = false;
    // A command that is sent again comes here again.
    if (CHANGES.has(name) && !this.transaction && !command[numbered] && !hasNumber(command.args)) {
      command[numbered] = true;
      this.numbers.give(command);
    }
    return super.sendCommand(command, stream);
  }
}

module.exports = { CounterdRedis };
