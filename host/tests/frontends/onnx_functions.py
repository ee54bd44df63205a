"""Writes small ONNX models of what lies between a model's fields: functions with defaults,
overloads and inputs that are left out, initial values of inputs, sparse tensors, and fields
that ONNX may add. onnx_writer.py says what is written.

usage: onnx_functions.py FOLDER
"""
import sys

from onnx_writer import (Graph, Ref, Sparse, case, function, node, one, part, refuse, scalar,
                         tensor, whole, write_all)

X = {"x": tensor("f32", -2, 3)}
SQUARE = {"x": tensor("f32", 1, 2, 3, 4, dims=[2, 2])}
TRUE = scalar("bool", True)


def own(op, inputs, outputs, **attrs):
    return node(op, inputs, outputs, domain="own", **attrs)


def leaky(alpha, **more):
    """A function that is LeakyRelu of its attribute."""
    return function("Leaky", ["a"], ["b"],
                    [node("LeakyRelu", ["a"], ["b"], alpha=Ref("alpha", "f32"))], 17,
                    usual={"alpha": alpha}, **more)


# ---- defaults ----------------------------------------------------------------------

def usual(name, op, kind, attr, value, inputs, outputs, given=None, **constants):
    """An op whose attribute is a function's with a default; the call gives it, or not."""
    body = [node(op, ["a"] + list(constants) if op != "Constant" else [], ["b"],
                 **{attr: Ref("how", kind)})]
    case(name, 17, [own("Mine", ["x"] + list(constants), ["y"],
                        **({} if given is None else {"how": given}))],
         inputs, {"y": outputs}, constants=constants,
         functions=[function("Mine", ["a"] + list(constants), ["b"], body, 17,
                             usual={"how": value})])


usual("default_float", "LeakyRelu", "f32", "alpha", 0.5, X, tensor("f32", -1, 3))
usual("default_float_that_is_given", "LeakyRelu", "f32", "alpha", 0.5, X,
      tensor("f32", -4, 3), given=2.0)
usual("default_zero", "LeakyRelu", "f32", "alpha", 0.0, X, tensor("f32", 0, 3))
usual("default_int", "Flatten", "i64", "axis", 0, SQUARE,
      tensor("f32", 1, 2, 3, 4, dims=[1, 4]))
usual("default_ints", "Transpose", "i64s", "perm", [0, 1], SQUARE, SQUARE["x"])
usual("default_string", "BitShift", "str", "direction", "LEFT",
      {"x": tensor("u8", 1, 2)}, tensor("u8", 4, 8), n=tensor("u8", 2, 2))
usual("default_tensor", "Constant", "tensor", "value", tensor("f32", 7, 8), X,
      tensor("f32", 7, 8))
usual("default_floats", "Constant", "f32s", "value_floats", [1.5, 2.5], X,
      tensor("f32", 1.5, 2.5))
BRANCHES = {"then_branch": Graph([node("Constant", [], ["t"], value=tensor("f32", 1, 1))], ["t"]),
            "else_branch": Graph([node("Constant", [], ["e"], value=tensor("f32", 2, 2))], ["e"])}
case("default_graph", 17, [own("Mine", ["c"], ["y"])], {"c": TRUE}, {"y": tensor("f32", 1, 1)},
     functions=[function("Mine", ["c"], ["b"],
                         [node("If", ["c"], ["b"], then_branch=Ref("yes", "graph"),
                               else_branch=Ref("no", "graph"))], 17,
                         usual={"yes": BRANCHES["then_branch"],
                                "no": BRANCHES["else_branch"]})])
# the default of the outer function reaches the inner one, whose own is another
case("default_of_a_default", 17, [own("Outer", ["x"], ["y"])], X, {"y": tensor("f32", -8, 3)},
     functions=[leaky(0.5),
                function("Outer", ["a"], ["b"],
                         [own("Leaky", ["a"], ["b"], alpha=Ref("beta", "f32"))], 17,
                         usual={"beta": 4.0})])
# an attribute that the outer function has no default for: the inner one's counts
case("default_behind_none", 17, [own("Outer", ["x"], ["y"])], X, {"y": tensor("f32", -1, 3)},
     functions=[leaky(0.5),
                function("Outer", ["a"], ["b"],
                         [own("Leaky", ["a"], ["b"], alpha=Ref("beta", "f32"))], 17,
                         wants=["beta"])])
case("no_default_is_the_op's", 17, [own("Mine", ["x"], ["y"])],
     {"x": tensor("f32", -200, 3)}, {"y": tensor("f32", -2, 3)},
     functions=[function("Mine", ["a"], ["b"],
                         [node("LeakyRelu", ["a"], ["b"], alpha=Ref("alpha", "f32"))], 17,
                         wants=["alpha"])])
# inside a branch of the function, and of the model
INSIDE = Graph([node("LeakyRelu", ["a"], ["t"], alpha=Ref("alpha", "f32"))], ["t"])
case("default_in_a_branch", 17, [own("Mine", ["x", "c"], ["y"])], {**X, "c": TRUE},
     {"y": tensor("f32", -1, 3)},
     functions=[function("Mine", ["a", "c"], ["b"],
                         [node("If", ["c"], ["b"], then_branch=INSIDE,
                               else_branch=Graph([node("Neg", ["a"], ["e"])], ["e"]))], 17,
                         usual={"alpha": 0.5})])
case("function_in_a_branch", 17,
     [node("If", ["c"], ["y"], then_branch=Graph([own("Leaky", ["x"], ["t"])], ["t"]),
           else_branch=Graph([own("Leaky", ["x"], ["e"], alpha=3.0)], ["e"]))],
     {**X, "c": scalar("bool", False)}, {"y": tensor("f32", -6, 3)}, functions=[leaky(0.5)])


# ---- graphs that a call gives ---------------------------------------------------------

def chooses(name="Mine", inner=None):
    return function(name, ["x", "c"], ["b"],
                    inner or [node("Neg", ["x"], ["z"]),  # not the caller's z
                              node("If", ["c"], ["b"], then_branch=Ref("yes", "graph"),
                                   else_branch=Graph([node("Identity", ["z"], ["e"])], ["e"]))],
                    17, wants=["yes"])


GIVEN = Graph([node("Add", ["x", "z"], ["t"])], ["t"])  # of the caller's x and z
MADE = [node("Add", ["x", "x"], ["z"])]
case("graph_of_the_caller", 17, MADE + [own("Mine", ["w", "c"], ["y"], yes=GIVEN)],
     {**X, "w": tensor("f32", 100, 100), "c": TRUE}, {"y": tensor("f32", -6, 9)},
     functions=[chooses()])
case("graph_through_two_functions", 17, MADE + [own("Outer", ["w", "c"], ["y"], yes=GIVEN)],
     {**X, "w": tensor("f32", 100, 100), "c": TRUE}, {"y": tensor("f32", -6, 9)},
     functions=[chooses(), chooses("Outer", [own("Mine", ["x", "c"], ["b"],
                                                 yes=Ref("yes", "graph"))])])
case("graph_into_a_branch_of_the_function", 17,
     MADE + [own("Outer", ["w", "c"], ["y"], yes=GIVEN)],
     {**X, "w": tensor("f32", 100, 100), "c": TRUE}, {"y": tensor("f32", -6, 9)},
     functions=[chooses(),
                chooses("Outer", [node("If", ["c"], ["b"], then_branch=Graph(
                    [own("Mine", ["x", "c"], ["t"], yes=Ref("yes", "graph"))], ["t"]),
                    else_branch=Graph([node("Neg", ["x"], ["e"])], ["e"]))])])
case("graph_with_an_attribute_of_the_caller", 17, [own("Outer", ["x", "c"], ["y"], alpha=0.5)],
     {**X, "c": TRUE}, {"y": tensor("f32", -1, 3)},
     functions=[chooses(),
                function("Outer", ["q", "c"], ["b"],
                         [own("Mine", ["q", "c"], ["b"], alpha=9.0, yes=Graph(
                             [node("LeakyRelu", ["q"], ["t"], alpha=Ref("alpha", "f32"))],
                             ["t"]))], 17, wants=["alpha"])])

# ---- overloads -------------------------------------------------------------------------

case("overloads", 17,
     [own("Leaky", ["x"], ["p"]), own("Leaky", ["x"], ["q"], overload="b"),
      own("Leaky", ["x"], ["r"], overload="a"),
      node("Concat", ["p", "q", "r"], ["y"], axis=0)],
     X, {"y": tensor("f32", -1, 3, -6, 3, -4, 3)},
     functions=[leaky(2.0, overload="a"), leaky(0.5), leaky(3.0, overload="b")])
case("overload_that_calls_another", 17, [own("Leaky", ["x"], ["y"], overload="twice")], X,
     {"y": tensor("f32", -8, 3)},
     functions=[function("Leaky", ["a"], ["b"],
                         [own("Leaky", ["a"], ["m"]), own("Leaky", ["m"], ["b"])], 17,
                         overload="twice"), leaky(2.0)])
MANY = ["v%d" % i for i in range(70)]  # so many that some meet in a table
case("many_overloads", 17,
     [own("Leaky", ["x"], ["o" + v], overload=v) for v in MANY]
     + [node("Concat", ["o" + v for v in MANY], ["y"], axis=0)],
     X, {"y": tensor("f32", *[v for i in range(70) for v in (-2.0 * i, 3)])},
     functions=[leaky(float(i), overload=v) for i, v in enumerate(MANY)])
one("overload_of_an_op", 17, "Relu", X, {"y": tensor("f32", 0, 3)}, overload="fast")

# ---- inputs that a call leaves out -------------------------------------------------------

CLIP = function("Clip", ["a", "low", "high"], ["b"],
                [node("Clip", ["a", "low", "high"], ["b"])], 17)
BOUND = {"k": scalar("f32", 1)}
V = {"x": tensor("f32", -3, 0, 5)}
case("left_out_at_the_end", 17, [own("Clip", ["x", "k"], ["y"])], V,
     {"y": tensor("f32", 1, 1, 5)}, functions=[CLIP], constants=BOUND)
case("left_out_in_the_middle", 17, [own("Clip", ["x", "", "k"], ["y"])], V,
     {"y": tensor("f32", -3, 0, 1)}, functions=[CLIP], constants=BOUND)
case("all_left_out", 17, [own("Clip", ["x"], ["y"])], V, {"y": V["x"]}, functions=[CLIP])
case("left_out_and_passed_on", 17, [own("Outer", ["x", "", "k"], ["y"])], V,
     {"y": tensor("f32", -3, 0, 1)}, constants=BOUND,
     functions=[CLIP, function("Outer", ["a", "l", "h"], ["b"],
                               [own("Clip", ["a", "l", "h"], ["b"])], 17)])
case("left_out_in_a_branch", 17, [own("Outer", ["x", "c"], ["y"])], {**V, "c": TRUE},
     {"y": V["x"]},
     functions=[function("Outer", ["a", "c", "l"], ["b"],
                         [node("If", ["c"], ["b"],
                               then_branch=Graph([node("Clip", ["a", "l"], ["t"])], ["t"]),
                               else_branch=Graph([node("Neg", ["a"], ["e"])], ["e"]))], 17)])
case("left_out_and_not_read", 17, [own("Outer", ["x"], ["y"])], V, {"y": V["x"]},
     functions=[function("Outer", ["a", "l"], ["b"], [node("Identity", ["a"], ["b"])], 17)])

# ---- initial values of inputs ------------------------------------------------------------

SCALE = {"k": tensor("f32", 10, 100)}
case("initial_value", 17, [node("Mul", ["x", "k"], ["y"])], {**X, "k": tensor("f32", 1, 1)},
     {"y": tensor("f32", -20, 300)}, constants=SCALE, unsaid=["k"])
case("initial_value_that_is_replaced", 17, [node("Mul", ["x", "k"], ["y"])],
     {**X, "k": tensor("f32", 2, 3)}, {"y": tensor("f32", -4, 9)}, constants=SCALE)
case("initial_value_before_an_input", 17, [node("Sub", ["k", "x"], ["y"])],
     {"k": tensor("f32", 2, 3), **X}, {"y": tensor("f32", 4, 0)}, constants=SCALE)
case("initial_shape_that_is_replaced", 17, [node("Reshape", ["x", "s"], ["y"])],
     {"x": tensor("f32", 1, 2, 3, 4, 5, 6), "s": tensor("i64", 3, 2)},
     {"y": tensor("f32", 1, 2, 3, 4, 5, 6, dims=[3, 2])}, constants={"s": tensor("i64", 2, 3)})
case("initial_axes_that_are_replaced", 18, [node("ReduceSum", ["x", "s"], ["y"], keepdims=0)],
     {**SQUARE, "s": tensor("i64", 0)}, {"y": tensor("f32", 4, 6)},
     constants={"s": tensor("i64", 1)})
case("initial_value_in_a_branch", 17,
     [node("If", ["c"], ["y"], then_branch=Graph([node("Mul", ["x", "k"], ["t"])], ["t"]),
           else_branch=Graph([node("Neg", ["x"], ["e"])], ["e"]))],
     {**X, "c": TRUE, "k": tensor("f32", 2, 3)}, {"y": tensor("f32", -4, 9)}, constants=SCALE)
case("initial_value_before_version_4", 8, [node("Mul", ["x", "k"], ["y"])],
     {**X, "k": tensor("f32", 1, 1)}, {"y": tensor("f32", -20, 300)}, constants=SCALE,
     unsaid=["k"], version=3)
# the op of a nested graph always gives its inputs
BODY = Graph([node("Add", ["s", "s"], ["o"]), node("Identity", ["go"], ["on"])], ["on", "o"],
             inputs=["i", "go", "s"], constants={"s": tensor("f32", 50, 60)})
case("initial_value_of_a_body's_input", 17, [node("Loop", ["n", "", "x"], ["y"], body=BODY)],
     {**X, "n": scalar("i64", 2)}, {"y": tensor("f32", -8, 12)})

one("later_ir", 17, "Relu", X, {"y": tensor("f32", 0, 3)}, version=99)

# ---- sparse tensors ------------------------------------------------------------------------

one("sparse_initializer", 17, "Add", {"x": tensor("f32", 1, 2, 3, 4, 5, 6, dims=[2, 3])},
    {"y": tensor("f32", 1, 12, 3, 4, 5, 26, dims=[2, 3])},
    constants={"k": Sparse([2, 3], tensor("f32", 10, 20), tensor("i64", 1, 5))})
one("sparse_initializer_by_coordinates", 17, "Add", {"x": tensor("i64", 0, 0, 0, 0, dims=[2, 2])},
    {"y": tensor("i64", 0, 7, 8, 0, dims=[2, 2])},
    constants={"k": Sparse([2, 2], tensor("i64", 7, 8), tensor("i64", 0, 1, 1, 0, dims=[2, 2]))})
case("sparse_constant", 17, [node("Constant", [], ["k"],
                                  sparse_value=Sparse([2], tensor("f32", 9), tensor("i64", 1))),
                             node("Add", ["x", "k"], ["y"])], X, {"y": tensor("f32", -2, 12)})

# ---- refused ---------------------------------------------------------------------------------

RELU = node("Relu", ["x"], ["y"])
CALL = [own("Leaky", ["x"], ["y"])]
BOTH = {"": 17, "own": 1}
for where, content in (("ModelProto", dict(nodes=[RELU], more=part(27, "new"))),
                       ("GraphProto", dict(nodes=[RELU], more_of_graph=whole(17, 1))),
                       ("NodeProto", dict(nodes=[RELU + whole(11, 1)])),
                       ("FunctionProto", dict(nodes=CALL,
                                              functions=[leaky(0.5) + part(15, "new")]))):
    refuse("later_field_of_a_" + where, "a %s in it has field" % where, opsets=BOTH, **content)
refuse("later_field_of_an_attribute", "a AttributeProto in it has field 24",
       [node("Constant", [], ["y"]) + part(5, part(1, "value") + part(24, "new"))], BOTH)
refuse("overload_that_is_not_there", 'calls overload "b" of own::Leaky',
       [own("Leaky", ["x"], ["y"], overload="b")], BOTH, functions=[leaky(0.5)])
refuse("two_functions_of_a_name", "has two functions own::Leaky", CALL, BOTH,
       functions=[leaky(0.5), leaky(2.0)])
refuse("two_overloads_of_a_name", "has two functions own::Leaky, overload a", CALL, BOTH,
       functions=[leaky(0.5), leaky(1.0, overload="a"), leaky(2.0, overload="a")])
refuse("more_inputs_than_the_function's", "has 2 inputs and 1 outputs, and function \"Leaky\" 1",
       [own("Leaky", ["x", "x"], ["y"])], BOTH, functions=[leaky(0.5)])
refuse("default_that_refers", 'the default of attribute "alpha" refers to "beta"', CALL, BOTH,
       functions=[leaky(Ref("beta", "f32"))])
refuse("reference_outside_of_a_function", 'refers to "alpha", outside of a function',
       [node("LeakyRelu", ["x"], ["y"], alpha=Ref("alpha", "f32"))], BOTH)
refuse("output_that_is_left_out", 'is an input that the node leaves out',
       [own("Pass", [""], ["y"])], BOTH,
       functions=[function("Pass", ["a"], ["a"], [], 17)])
refuse("output_of_another_type", 'output "y" is declared as f32, and is i64',
       [node("Shape", ["x"], ["y"])], BOTH)
refuse("sparse_index_beyond", "has an index beyond its dimensions",
       [node("Add", ["x", "k"], ["y"])], BOTH,
       constants={"k": Sparse([2], tensor("f32", 1), tensor("i64", 2))})
refuse("sparse_index_twice", "has indices that are not in ascending order",
       [node("Add", ["x", "k"], ["y"])], BOTH,
       constants={"k": Sparse([2], tensor("f32", 1, 2), tensor("i64", 0, 0))})
refuse("sparse_dimension_below", 'sparse_dimension_below.onnx, tensor "k"',
       [node("Add", ["x", "k"], ["y"])], BOTH,
       constants={"k": Sparse([-2], tensor("f32", 1), tensor("i64", 0))})
refuse("sparse_index_below", "has an index beyond its dimensions",
       [node("Add", ["x", "k"], ["y"])], BOTH,
       constants={"k": Sparse([2], tensor("f32", 1), tensor("i64", -1))})

refuse("name_with_a_zero", "a field op_type in it has a zero character",
       [node("Relu\0x", ["x"], ["y"])], BOTH)
refuse("place_with_a_zero", "a field external_data in it has a zero character",
       [node("Add", ["x", "k"], ["y"])], BOTH,
       more_of_graph=part(5, whole(1, 2) + whole(2, 1) + part(8, "k") + whole(14, 1)
                          + part(13, part(1, "location") + part(2, "data\0.bin"))))

write_all(sys.argv[1])
