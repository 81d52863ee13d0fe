"""Powers of constant exponents, in the dtype of their result."""
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Variable
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.basic import cast, get_underlying_scalar_constant_value
from pytensor.tensor.math import pow as power
from pytensor.tensor.rewriting.math import local_pow_specialize, local_pow_to_nested_squaring

# PyTensor's own square the base as it is and cast what comes out: uint16 ** 2, of dtype int32, wraps around in 16 bits.
REPLACED = ("local_pow_specialize", "local_pow_to_nested_squaring")
TAG = "weft_powers"


@node_rewriter([power])
def power_in_dtype_of_result(fgraph, node):
    """As PyTensor's own, of a base that has been cast; an integer to a negative one stays what it is, an error."""
    (base, exponent), dtype = node.inputs, node.outputs[0].type.dtype
    number = get_underlying_scalar_constant_value(exponent, only_process_constants=True, raise_not_constant=False)
    if isinstance(number, Variable) or (dtype.startswith(("int", "uint")) and number < 0):
        return None
    if base.type.dtype != dtype:
        return [power(cast(base, dtype), exponent)]
    return local_pow_specialize.transform(fgraph, node) or local_pow_to_nested_squaring.transform(fgraph, node)


optdb["specialize"].register(power_in_dtype_of_result.__name__, power_in_dtype_of_result, TAG)
