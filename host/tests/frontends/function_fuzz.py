"""Writes ONNX models of functions at random, each with what it computes: an interpreter here
evaluates the same functions by the IR's words, without writing any of them out. Functions have
defaults, overloads and inputs that calls leave out, call one another, stand in branches, are
given graphs; inputs have initial values, which a case replaces or not.

usage: function_fuzz.py FOLDER COUNT [SEED]
"""
import random
import sys

from onnx_writer import Graph, Ref, case, function, node, scalar, tensor, write_all

ROWS, COLUMNS = 2, 3  # of each value: quarters of integers, which f32 holds
OVERLOADS = "", "a", "b"


# ---- ops: how they are written, and what they mean ----------------------------------------

def leaky(x, alpha=0.01):
    return [v if v >= 0 else v * alpha for v in x]


def clip(x, low=None, high=None):
    x = x if low is None else [max(v, low[0]) for v in x]
    return x if high is None else [min(v, high[0]) for v in x]


def turned(x, perm=(1, 0)):
    """Transposed by perm; the values of the result take the shape of x again."""
    if tuple(perm) == (0, 1):
        return x
    return [x[r * COLUMNS + c] for c in range(COLUMNS) for r in range(ROWS)]


def rolled(x, axis=0):
    """Joined to itself along an axis, of which the second of three parts is taken."""
    rows = [x[r * COLUMNS:(r + 1) * COLUMNS] for r in range(ROWS)]
    both = rows + rows if axis == 0 else [row + row for row in rows]
    if axis == 0:
        return [v for row in both[1:1 + ROWS] for v in row]
    return [v for row in both for v in row[1:1 + COLUMNS]]


def bounded(x):
    return [max(-1024.0, min(1024.0, v)) for v in x]


class Op:
    """inputs: how many are needed, and how many there may be; attrs: kinds by name."""

    def __init__(self, call, write, needs, takes, **attrs):
        self.call, self.write, self.needs, self.takes, self.attrs = call, write, needs, takes, attrs


def plain(name):
    return lambda fresh, ins, out, attrs: [node(name, ins, [out], **attrs)]


def write_turned(fresh, ins, out, attrs):
    middle, shape = fresh(), fresh()
    return [node("Transpose", ins, [middle], **attrs),
            node("Constant", [], [shape], value_ints=[ROWS, COLUMNS]),
            node("Reshape", [middle, shape], [out])]


def write_rolled(fresh, ins, out, attrs):
    """Slice wants its axis as an input: a Constant of the attribute."""
    joined, starts, ends, axes, sizes = (fresh() for _ in range(5))
    axis = attrs["axis"]
    of_axis = node("Constant", [], [axes], value_int=axis)
    flat, one, shape, rows, many = (fresh() for _ in range(5))
    return [node("Concat", [ins[0], ins[0]], [joined], axis=axis), of_axis,
            node("Constant", [], [one], value_ints=[1]),
            node("Reshape", [axes, one], [flat]),
            node("Shape", [ins[0]], [shape]), node("Gather", [shape, flat], [sizes], axis=0),
            node("Add", [sizes, one], [ends]), node("Identity", [one], [starts]),
            node("Slice", [joined, starts, ends, flat], [out])]


OPS = {
    "leaky": Op(leaky, plain("LeakyRelu"), 1, 1, alpha="f32"),
    "clip": Op(clip, plain("Clip"), 1, 3),
    "turned": Op(turned, write_turned, 1, 1, perm="i64s"),
    "rolled": Op(rolled, write_rolled, 1, 1, axis="i64"),
    "add": Op(lambda x, y: bounded([a + b for a, b in zip(x, y)]),
              lambda fresh, ins, out, attrs: bounded_node("Add", fresh, ins, out), 2, 2),
    "sub": Op(lambda x, y: bounded([a - b for a, b in zip(x, y)]),
              lambda fresh, ins, out, attrs: bounded_node("Sub", fresh, ins, out), 2, 2),
    "max": Op(lambda x, y: [max(a, b) for a, b in zip(x, y)], plain("Max"), 2, 2),
    "neg": Op(lambda x: [-v for v in x], plain("Neg"), 1, 1),
    "ones": Op(lambda x, value=(1.0,): [v + value[0] for v in x],
               lambda fresh, ins, out, attrs: constant_node(fresh, ins, out, attrs), 1, 1,
               value="tensor"),
}


def bounded_node(name, fresh, ins, out):
    middle, low, high = fresh(), fresh(), fresh()
    return [node(name, ins, [middle]), node("Constant", [], [low], value_float=-1024.0),
            node("Constant", [], [high], value_float=1024.0),
            node("Clip", [middle, low, high], [out])]


def constant_node(fresh, ins, out, attrs):
    made, middle = fresh(), fresh()
    attrs = attrs or {"value": tensor("f32", 1.0)}
    return [node("Constant", [], [made], **attrs), node("Add", [ins[0], made], [middle]),
            node("Identity", [middle], [out])]


# ---- programs ------------------------------------------------------------------------------

class Step:
    """One op, call or branch. attrs: a literal, or ("ref", name, kind)."""

    def __init__(self, what, key, ins, out, attrs):
        self.what, self.key, self.ins, self.out, self.attrs = what, key, ins, out, attrs


class Body:
    """Of a function: needs of its inputs must be given, the others may be left out."""

    def __init__(self, ins, needs, attrs, steps, out):
        self.ins, self.needs, self.attrs, self.steps, self.out = ins, needs, attrs, steps, out


class Block:
    """A nested graph: steps that see the names around, and its result."""

    def __init__(self, steps, out):
        self.steps, self.out = steps, out


class Writer:
    """Makes steps at random. functions: those made before, by (name, overload)."""

    def __init__(self, rng, functions):
        self.rng, self.functions, self.count = rng, functions, 0
        self.calls = 3  # each writes its function out again

    def fresh(self):
        self.count += 1
        return "v%d" % self.count

    def literal(self, kind):
        r = self.rng
        return {"f32": lambda: r.choice([0.0, 0.25, 0.5, 2.0, -1.0, 1.0]),
                "i64": lambda: r.randrange(2), "i64s": lambda: r.choice([[0, 1], [1, 0]]),
                "tensor": lambda: ("tensor", r.choice([-2.0, 0.0, 0.5, 3.0]))}[kind]()

    def attrs_for(self, wanted, own):
        """What a node says of the attributes: nothing, a literal, or its function's."""
        said = {}
        for name, kind in wanted.items():
            same = [n for n, (k, _) in own.items() if k == kind]
            choice = self.rng.random()
            if kind == "graph":
                if same and choice < 0.4:
                    said[name] = ("ref", self.rng.choice(same), kind)
            elif same and choice < 0.5:
                said[name] = ("ref", self.rng.choice(same), kind)
            elif choice < 0.75 or name == "axis":  # Concat has no default
                said[name] = self.literal(kind)
        return said

    def steps(self, values, maybe, own, scalars, depth, count):
        """values: names that are there; maybe: names that a call may have left out."""
        made, values = [], list(values)
        for _ in range(count):
            step = self.step(values, maybe, own, scalars, depth)
            made.append(step)
            values.append(step.out)
        return made, values[-1]

    def step(self, values, maybe, own, scalars, depth):
        r, choice = self.rng, self.rng.random()
        if self.functions and self.calls and depth < 3 and choice < 0.35:
            self.calls -= 1
            return self.call(values, maybe, own, scalars, depth)
        if depth < 2 and choice < 0.5:
            steps = [Block(*self.steps(values, maybe, own, scalars, depth + 1, 2))
                     for _ in range(2)]
            graphs = [n for n, (k, _) in own.items() if k == "graph"]
            if graphs and r.random() < 0.7:
                steps[r.randrange(2)] = ("ref", r.choice(graphs), "graph")
            return Step("if", r.choice([True, False]), [], self.fresh(), steps)
        key = r.choice(sorted(OPS))
        op = OPS[key]
        ins = [r.choice(values) for _ in range(op.needs)]
        for _ in range(op.needs, op.takes):  # bounds of Clip
            ins.append(r.choice(["", ""] + scalars + [n for n in maybe if n[0] == "s"] * 2))
        return Step("op", key, ins, self.fresh(), self.attrs_for(op.attrs, own))

    def call(self, values, maybe, own, scalars, depth):
        r = self.rng
        key = r.choice(sorted(self.functions))
        body = self.functions[key]
        ins = []
        for i, name in enumerate(body.ins):
            bound = name[0] == "s"
            pool = scalars if bound else values
            some = [n for n in maybe if (n[0] == "s") == bound]
            if i < body.needs:
                ins.append(r.choice(pool))
            else:
                ins.append(r.choice([""] + pool[:2] + some * 2))
        while ins and not ins[-1] and r.random() < 0.5:
            ins.pop()
        said = self.attrs_for({n: k for n, (k, _) in body.attrs.items()}, own)
        for name, (kind, usual) in body.attrs.items():
            if kind == "graph" and name not in said and (usual is None or r.random() < 0.5):
                said[name] = Block(*self.steps(values, maybe, own, scalars, depth + 1, 2))
        return Step("call", key, ins, self.fresh(), said)

    def body(self):
        r = self.rng
        needs = r.randrange(1, 3)
        ins = ["x%d" % i for i in range(needs)]
        ins += [r.choice("sm") + "%d" % i for i in range(r.randrange(3))]
        attrs = {}
        for i in range(r.randrange(4)):
            kind = r.choice(["f32", "i64", "i64s", "tensor", "graph"])
            must = kind in ("i64", "tensor")  # what Concat and Constant need
            usual = self.literal(kind) if kind != "graph" and (must or r.random() < 0.7) else None
            if kind == "graph" and r.random() < 0.5:
                usual = Block([Step("fixed", r.choice([-1.0, 2.0]), [], self.fresh(), {})], None)
                usual.out = usual.steps[-1].out
            attrs["p%d" % i] = (kind, usual)
        steps, out = self.steps(ins[:needs], ins[needs:], attrs, ["one"], 0, r.randrange(1, 4))
        return Body(ins, needs, attrs,
                    [Step("bound", 1.0, [], "one", {})] + steps, out)


# ---- what they mean ---------------------------------------------------------------------------

class Frame:
    """Where names and attributes are looked up. attrs: a value, or (frame, Block)."""

    def __init__(self, names, attrs, around=None):
        self.names, self.attrs, self.around = names, attrs, around

    def find(self, name):
        frame = self
        while name not in frame.names:
            frame = frame.around
        return frame.names[name]


class Machine:
    def __init__(self, functions):
        self.functions = functions

    def value(self, frame, said):
        """(there, value) of what a node says of an attribute."""
        if isinstance(said, tuple) and said[0] == "ref":
            return (True, frame.attrs[said[1]]) if said[1] in frame.attrs else (False, None)
        if isinstance(said, Block):
            return True, (frame, said)
        return True, said[1:] if isinstance(said, tuple) else said

    def given(self, frame, said):
        pairs = {name: self.value(frame, v) for name, v in said.items()}
        return {name: v for name, (there, v) in pairs.items() if there}

    def run_block(self, frame, block):
        where, block = block
        inner = Frame({}, where.attrs, where)
        return self.run(inner, block.steps, block.out)

    def run(self, frame, steps, out):
        for step in steps:
            frame.names[step.out] = self.step(frame, step)
        return frame.find(out)

    def step(self, frame, step):
        if step.what == "bound":
            return [step.key]
        if step.what == "fixed":
            return [step.key] * (ROWS * COLUMNS)
        if step.what == "if":
            _, block = self.value(frame, step.attrs[0 if step.key else 1])
            return self.run_block(frame, block)
        ins = [frame.find(n) if n else None for n in step.ins]
        given = self.given(frame, step.attrs)
        if step.what == "op":
            return OPS[step.key].call(*ins, **given)
        body = self.functions[step.key]
        names = dict(zip(body.ins, ins + [None] * len(body.ins)))
        inner = Frame(names, {})
        for name, (_, usual) in body.attrs.items():
            if name in given:
                inner.attrs[name] = given[name]
            elif usual is not None:
                inner.attrs[name] = self.value(inner, usual)[1]
        return self.run(inner, body.steps, body.out)


# ---- how they are written ------------------------------------------------------------------------

def written(said, fresh):
    if isinstance(said, Block):
        return Graph(nodes_of(said.steps, fresh), [said.out])
    if isinstance(said, tuple) and said[0] == "ref":
        return Ref(said[1], said[2])
    return tensor("f32", *said[1:]) if isinstance(said, tuple) else said


def nodes_of(steps, fresh):
    made = []
    for step in steps:
        if step.what == "bound":
            made.append(node("Constant", [], [step.out], value_float=step.key))
        elif step.what == "fixed":
            made.append(node("Constant", [], [step.out], value=tensor(
                "f32", *[step.key] * (ROWS * COLUMNS), dims=[ROWS, COLUMNS])))
        elif step.what == "if":
            made.append(node("If", ["yes" if step.key else "no"], [step.out],
                             then_branch=written(step.attrs[0], fresh),
                             else_branch=written(step.attrs[1], fresh)))
        else:
            attrs = {n: written(v, fresh) for n, v in step.attrs.items()}
            if step.what == "op":
                made += OPS[step.key].write(fresh, step.ins, step.out, attrs)
            else:
                made.append(node(step.key[0], step.ins, [step.out], domain="own",
                                 overload=step.key[1], **attrs))
    return made


def truths():
    return [node("Constant", [], ["yes"], value=scalar("bool", True)),
            node("Constant", [], ["no"], value=scalar("bool", False))]


def write_case(number, seed):
    rng = random.Random("%d %d" % (seed, number))
    bodies, numbers = {}, iter(range(1 << 30))

    def fresh():
        return "t%d" % next(numbers)

    for _ in range(rng.randrange(1, 5)):
        key = ("f%d" % rng.randrange(2), rng.choice(OVERLOADS))
        if key not in bodies:
            bodies[key] = Writer(rng, dict(bodies)).body()
    ins = {"x%d" % i: [rng.randrange(-40, 40) / 4 for _ in range(ROWS * COLUMNS)]
           for i in range(2)}
    initial = {"k": [rng.randrange(-40, 40) / 4 for _ in range(ROWS * COLUMNS)],
               "s": [rng.randrange(-8, 8) / 4]}
    replaced = rng.random() < 0.5
    values = dict(initial)
    if replaced:
        values = {"k": [rng.randrange(-40, 40) / 4 for _ in range(ROWS * COLUMNS)],
                  "s": [rng.randrange(-8, 8) / 4]}
    steps, out = Writer(rng, bodies).steps(["x0", "x1", "k"], [], {}, ["s"], 0,
                                           rng.randrange(2, 7))
    result = Machine(bodies).run(Frame({**ins, **values}, {}), steps, out)

    def shaped(name, v):
        return scalar("f32", v[0]) if name == "s" else tensor("f32", *v, dims=[ROWS, COLUMNS])

    functions = [function(name, body.ins, [body.out], truths() + nodes_of(body.steps, fresh), 17,
                          overload=overload,
                          wants=[n for n, (_, usual) in body.attrs.items() if usual is None],
                          usual={n: written(usual, fresh)
                                 for n, (_, usual) in body.attrs.items() if usual is not None})
                 for (name, overload), body in bodies.items()]
    rng.shuffle(functions)
    case("case_%06d" % number, 17, truths() + nodes_of(steps, fresh)
         + [node("Identity", [out], ["result"])],
         {**{n: shaped(n, v) for n, v in ins.items()},
          **{n: shaped(n, v) for n, v in values.items()}},
         {"result": shaped("y", result)}, functions=functions,
         constants={n: shaped(n, v) for n, v in initial.items()},
         unsaid=() if replaced else ("k", "s"))


for i in range(int(sys.argv[2])):
    write_case(i, int(sys.argv[3]) if len(sys.argv) > 3 else 1)
write_all(sys.argv[1])
