"""Powers: rewritten as PyTensor does, where numbers do not wrap around because of it."""
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Variable
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.scalar.basic import Pow
from pytensor.tensor.basic import cast, get_underlying_scalar_constant_value
from pytensor.tensor.math import mul, pow as power, true_div
from pytensor.tensor.rewriting.math import local_mul_pow_to_pow_add, local_pow_specialize, local_pow_to_nested_squaring

# PyTensor's own square the base as it is and cast what comes out: uint16 ** 2, of dtype int32, wraps around in 16 bits. They add the
# exponents of x ** 100 * x ** 100, which are of 8 bits, to -56.
REPLACED = ("local_pow_specialize", "local_pow_to_nested_squaring", "local_mul_pow_to_pow_add")
TAG = "weft_powers"
LARGEST = 127  # of the narrowest exponents


def is_whole(variable):
    return variable.type.dtype.startswith(("int", "uint", "bool"))


def constant_of(variable):
    """Its value, or None."""
    value = get_underlying_scalar_constant_value(variable, only_process_constants=True, raise_not_constant=False)
    return None if isinstance(value, Variable) else value


@node_rewriter([power])
def power_in_dtype_of_result(fgraph, node):
    """As PyTensor's own, of a base that has been cast; an integer to a negative one stays what it is, an error."""
    (base, exponent), dtype, number = node.inputs, node.outputs[0].type.dtype, constant_of(node.inputs[1])
    if number is None or (is_whole(node.outputs[0]) and number < 0):
        return None
    if base.type.dtype != dtype:
        return [power(cast(base, dtype), exponent)]
    return local_pow_specialize.transform(fgraph, node) or local_pow_to_nested_squaring.transform(fgraph, node)


@node_rewriter([mul, true_div])
def powers_of_one_base(fgraph, node):
    """As PyTensor's own, of powers that are not integers, with exponents that are not, or are constants with room for their sum."""
    powers = [v for v in node.inputs if v.owner is not None and isinstance(getattr(v.owner.op, "scalar_op", None), Pow)]
    most = LARGEST // len(node.inputs)

    def has_room(exponent):
        number = constant_of(exponent) if exponent.type.dtype.startswith("int") else None
        return not is_whole(exponent) or (number is not None and abs(int(number)) <= most)

    if any(is_whole(v) or not has_room(v.owner.inputs[1]) for v in powers):
        return None
    return local_mul_pow_to_pow_add.transform(fgraph, node)


for rewrite in (power_in_dtype_of_result, powers_of_one_base):
    optdb["specialize"].register(rewrite.__name__, rewrite, TAG)
