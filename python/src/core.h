/* core.h -- what the files of the extension share.
 *
 * Every operation runs between op_begin and op_end: a scope of weft that is discarded, so that temporaries go and only
 * what a Python object owns stays. Functions that return PyObject * or weft_array * give NULL with an exception set;
 * those that return int give -1. A weft_array * is borrowed: it lives as long as the open scope or its owner. */
#ifndef WEFT_PYTHON_CORE_H
#define WEFT_PYTHON_CORE_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <weft.h>

#if PY_VERSION_HEX < 0x030A0000
static inline PyObject *Py_NewRef(PyObject *o) { Py_INCREF(o); return o; }
static inline PyObject *Py_XNewRef(PyObject *o) { Py_XINCREF(o); return o; }
#endif

/* A Python array is a name for a weft array it owns. Mutation gives it another one: whoever holds the object sees that,
 * arrays computed from it before do not. */
struct array {
  PyObject_HEAD
  weft_array *handle;
  PyObject *weak_references;
  uint64_t body; /* in which it was made */
  int is_given;  /* its memory belongs to whoever looks at it: nobody else can (weft_is_only) */
  int n_shown;   /* how many look at it, and may write */
  int is_foreign;  /* others gave its memory, who may not want it written to */
  weft_array *there; /* the same on the device `place`, where it is computed; NULL: it is placed nowhere (place.c) */
  int place;
};
extern PyTypeObject array_type;
extern PyTypeObject mlx_array_type; /* the same struct with the conventions of MLX: mlx.c */
#define array_check(o)  PyObject_TypeCheck(o, &array_type)
#define mlx_check(o)    PyObject_TypeCheck(o, &mlx_array_type)
#define array_handle(o) (((struct array *)(o))->handle)

PyObject *array_wrap(weft_array *);                  /* a new object that owns it, of the flavour set, or the exception */
PyObject *array_wrap_as(PyTypeObject *, weft_array *);
int array_assign(PyObject *self, weft_array *);      /* self names this one from now on */
PyObject *array_from(PyObject *);                    /* the object itself if it is an array, else one made of it */
int64_t array_word(PyObject *, weft_dtype, int rank); /* its flavour, its dtype, its rank: what compiled functions are chosen by */
int array_describe(PyObject *, int64_t word[1 + WEFT_RANK_MAX]); /* that word, then the sizes: how many words; -1: a size
                                                        is not known yet, and no exception is set */
/* Which sizes a compiled function is for: those of its arguments; those that are 1, as only these stretch; or it says itself. */
enum { OPEN_NONE, OPEN_ALL_BUT_ONE, OPEN_ALL };
void array_open(int open, int rank, int64_t dims[]);       /* WEFT_ANY for sizes it is not chosen by */
PyObject *array_list(PyTypeObject *, int n, weft_array *const[]); /* a list of new objects */

/* Flavour: which of the two types an array is an object of. Results have that of their operands, and where these differ, MLX's.
 * Rows of a table of names run with a flavour that is set for the thread; everything else says which it means. */
PyTypeObject *flavour(void);                         /* the one that is set */
PyTypeObject *flavour_set(PyTypeObject *);           /* gives the one before */
PyTypeObject *flavour_of(Py_ssize_t n, PyObject *const[]); /* of operands; lists and tuples of them count */
#define flavour_of_array(o) (mlx_check(o) ? &mlx_array_type : &array_type) /* users derive types of their own from these */

/* op.c: the frame of every operation. */
weft_scope *op_begin(void);                          /* also notes the user's line */
PyObject *op_end(weft_scope *, weft_array *result);  /* wraps the result in the flavour that is set; NULL passes through */
PyObject *op_end_as(PyTypeObject *, weft_scope *, weft_array *result);

/* apart.c: threads that have no GIL between them. With it a guard is nothing. */
void run_apart(void (*work)(void *), void *of); /* while no other thread is in the middle of an operation. It calls no Python */
#ifdef Py_GIL_DISABLED
#define GUARD(name)   static PyMutex name
#define guard(name)   PyMutex_Lock(&name)
#define unguard(name) PyMutex_Unlock(&name)
#else
#define GUARD(name)   struct name
#define guard(name)   ((void)0)
#define unguard(name) ((void)0)
#endif

PyObject *in_python(const char *module, const char *name, PyObject *args); /* what is written in Python: name(*args). Takes
                                                        over args, a tuple or NULL */

/* origin.c: lines of the user's program, as tags of nodes. */
void origin_mark(void);
PyObject *origin_text(uint64_t tag);                 /* "file.py:12", or None */
PyObject *origin_called(void);                       /* the name of the function of this package, written in Python, that the user's
                                                        line called; NULL, without an exception: it called none */
extern PyMethodDef origin_functions[];

/* scope.c: bodies, Python functions that are being traced. The serial of the innermost of this thread; 0: there is none. */
struct body { uint64_t serial; const char *name; };
uint64_t body_serial(void);
int scope_is_open(void);                             /* whether this thread is inside a trace, whose arrays keep their history */
const char *body_name(void);                         /* "scan" or the like */
int body_refuses(uint64_t serial);                   /* to change an array that was made in that one: with the exception */

/* dlpack.c */
weft_array *dlpack_array(PyObject *, int may_share); /* of what has __dlpack__, in the scope that is open; NULL: the exception */

/* error.c */
PyObject *raise_status(weft_status);                 /* always NULL */
void *raise_unsized(const char *text);                     /* weft.NoValueError, in place of what was raised; NULL */
int raised_no_value(void);                                 /* whether the exception is weft.NoValueError */
PyObject *raise_no_size(weft_array *, int axis);     /* always NULL */
void raised_by(const char *name); /* what was raised begins with the function that the user called: the one of the package that is
                                     written in Python, or else this one. NULL: there is no other */
int raise_failed(PyObject *); /* whether it is an array that failed in another thread; in place of what was raised, its cause is */
PyObject *raise_no_axis(Py_ssize_t axis, int rank);  /* always NULL */
int raise_no_place(Py_ssize_t i, int axis, int64_t size); /* an index that the axis does not have; always -1 */
int error_add_types(PyObject *module);

/* dtype.c */
extern PyTypeObject dtype_type, mlx_dtype_type;       /* one for each flavour of arrays */
PyObject *dtype_object(weft_dtype);                  /* a borrowed reference; one object for each dtype, of the flavour set */
PyObject *dtype_object_as(PyTypeObject *array, weft_dtype);
int dtype_parse(PyObject *, weft_dtype *);           /* weft.float32, "float32", a NumPy dtype, or float, int, bool */
int dtype_of_format(const char *format, Py_ssize_t itemsize, weft_dtype *); /* of the buffer protocol; 0: none */
const char *dtype_format(weft_dtype);                /* NULL: the buffer protocol has none for it */
const char *dtype_text(weft_dtype);                  /* "float32" */
const char *dtype_text_of_c(const char *c, size_t n); /* of "f32", the n characters: "float32"; NULL: no dtype is called so */
int dtype_add_all(PyObject *module, PyTypeObject *array); /* of an array type */

/* convert.c: Python objects to arrays of the open scope. */
weft_array *convert_operand(PyObject *);             /* numbers are weak */
weft_array *convert_array(PyObject *, const weft_dtype *wanted, int may_share); /* wanted NULL: what it is */
weft_array *convert_cast(weft_array *, weft_dtype);  /* by the conventions of the flavour that is set */
int convert_is_possible(PyObject *);
int convert_is_index(PyObject *);                    /* whether it is one integer, as a size or an axis is */
int convert_shape(PyObject *, int *rank, int64_t dims[]);
int convert_dims(PyObject *array, int *rank, int64_t dims[]); /* of an array: every size is a number */
int convert_dims_of(weft_array *, int *rank, int64_t dims[]);
/* A shape in which sizes are arrays: 1, and zeros that have it; one may be -1 if it is the shape of all elements of `of`. 0: it
 * names none. -1: an exception is set. */
int convert_sized(PyObject *shape, weft_dtype, weft_array *of, weft_array **zeros);
int convert_open_dims(PyObject *array, int *rank, int64_t dims[]); /* the same, WEFT_ANY for sizes that are not known yet */
int convert_integer(PyObject *, int64_t *);
int convert_all(int n, PyObject *const o[], weft_array *a[]); /* operands; whether all could be converted */
int convert_arrays(int n, PyObject *const o[], weft_array *a[]); /* likewise, of functions of arrays alone: in MLX's flavour each
                                                                    keeps its own dtype */
/* A list of arrays, owned, so that whatever Python does meanwhile they stay. */
struct list { int n; weft_array **array; PyTypeObject *flavour; };
int list_take(struct list *, PyObject *sequence);    /* on failure there is nothing to drop */
void list_drop(struct list *);

/* numpy.c: NumPy's arrays, if they are what they are expected to be; NULL without an exception: another way is to be tried. */
weft_array *numpy_share(PyObject *);                 /* its memory, for as long as it is wanted; of a small one a copy */
PyObject *numpy_small(weft_array *);                 /* a copy of one that is computed and small */

/* mlx.c: the same by the conventions of MLX. */
int mlx_operands(int n, PyObject *const o[], weft_array *a[]); /* as convert_all: numbers and the memory of others take the dtype
                                                        of the array they meet */
int mlx_fits(PyObject *number, weft_dtype);          /* whether a dtype holds a Python number, if it is an integer; else raises */
weft_array *mlx_cast(weft_array *, weft_dtype);      /* floats that no integer holds are what the machine makes of them */
int mlx_size_refuses(int64_t);                       /* a size that MLX's 32 bits do not hold, where its flavour is set: with the
                                                        exception */
int mlx_is_made_of(PyObject *);                      /* whether it has __mlx_array__ */
weft_array *mlx_from(PyObject *, const weft_dtype *wanted); /* of what has it */

/* value.c: arrays to Python objects. */
extern PyMethodDef value_methods[];
extern PyBufferProcs value_buffer;
PyObject *value_item(PyObject *);
int64_t value_count(PyObject *);                           /* how many elements an array has; -1: raised */
weft_array *value_pin(weft_array *, int device, weft_block *); /* computes and pins; what value_unpin is to be given */
void value_unpin(weft_array *);                      /* any thread; needs no GIL */
extern PyMethodDef dlpack_methods[];

/* place.c: where operations run; -1: where the thread's work does. */
int place_now(void);
int place_set(int device);                           /* gives the one before */
int place_of(PyObject *stream);                      /* of a stream or a device; None: the one that is set; -2: an exception */
PyObject *place_there(PyObject *tree, int device, int *n); /* a tree whose arrays are on that device; adds their number to n */
PyObject *place_away(PyObject *tree, int device);    /* what was made there, placed nowhere; takes over the tree, or NULL */
extern PyMethodDef place_functions[];

/* evaluate.c */
int evaluate(int n, weft_array *const[]);            /* waits without the GIL; Ctrl-C stops it. Owned by the caller */
int evaluate_new(int n, weft_array *const[]);        /* the same of what this thread has just made: nobody else computes it */
int evaluate_into(weft_array *, void *values, size_t bytes); /* the same, then reads. Owns the array meanwhile */
int evaluate_closing(weft_scope *);                  /* closes it likewise. -1: nothing of it has happened; an exception is set if
                                                        the user or a function of the host's wants one */
extern PyMethodDef evaluate_functions[];

/* index.c */
PyObject *index_get(PyObject *self, PyObject *index);
int index_set(PyObject *self, PyObject *index, PyObject *value);
extern PyMethodDef index_functions[];
weft_array *index_take(weft_array *, int axis, weft_array *i); /* integers of any shape in the place of an axis */

/* Methods and slots that are no rows of names.h. */
extern PyMethodDef element_methods[], shape_methods[];
extern PyNumberMethods element_numbers;
PyObject *element_compare(PyObject *, PyObject *, int op);
extern PyMethodDef transform_functions[], rules_functions[], tree_functions[], walk_functions[];
extern PyMethodDef fetch_functions[], file_functions[], host_functions[], names_functions[];
int host_raise(const char *message);                 /* raises what a function has raised that the message tells of, and is -1;
                                                        0: there is none, or it is very long ago */
extern PyTypeObject scope_type, function_type, thunk_type, loop_type, cond_type, compiled_type;
PyObject *function_make(weft_function *, PyTypeObject *flavour, int n, int m); /* of n arrays, with m results of that flavour;
                                                        takes part in owning it */
weft_function *function_of(PyObject *function);      /* of a Function; NULL: it is none */
PyTypeObject *function_flavour(PyObject *function);  /* of its results */
/* Of memory that is shared for the call, done by `call`, which gives a list of arrays; in and out have room for all of them. */
typedef PyObject *function_caller(const void *of, weft_function *, int n, weft_array *const in[], int m, weft_array *out[]);
PyObject *function_with(PyObject *function, PyObject *const args[], Py_ssize_t n, function_caller *call, const void *of);
PyObject *function_run(PyObject *function, PyObject *const args[], Py_ssize_t n); /* the results, computed; those that nobody else
                                                        sees may be written to */
PyObject *tree_arrays(Py_ssize_t n, PyObject *const trees[]); /* a list of all arrays in them */

#define WITH_KEYWORDS(f) (PyCFunction)(void (*)(void))f, METH_VARARGS | METH_KEYWORDS

/* Axes counted from 0. */
int axis_parse(PyObject *, int rank, int *axis);                    /* one number */
int axes_parse(PyObject *, int rank, int *n, int axes[]);           /* a number or several, ascending, all different */
int axes_in_order(PyObject *, int rank, int *n, int axes[]);        /* likewise, in the order in which they are named */

#endif
