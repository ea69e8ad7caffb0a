/* autotune: the fastest known kernel for one problem on one GPU, looked up and launched.
 *
 * The library answers from the database that the `autotune` command filled, from winners shipped with it, or from a default; it
 * compiles what is not in its cubin cache with NVRTC, in this process, and launches through the driver. It never tunes.
 *
 * Rules that hold for every function:
 *  - Failure is a status other than AUTOTUNE_OK, with a sentence in autotune_last_error(). Nothing is printed, nothing exits, and
 *    no C++ exception leaves the library.
 *  - Thread-safe: one handle and one plan may be used by many threads at once. Creating and destroying an object excludes other
 *    uses of the same object.
 *  - GPU work goes to the CUDA context that is current on the calling thread; the library creates none. One handle serves every
 *    GPU of the process; a plan belongs to the context in which it was made: where another is current it is refused
 *    (INVALID_ARGUMENT), and a handle makes a plan of its own for each context.
 *  - After fork() the child gets AUTOTUNE_FORKED from handles and plans of its parent: CUDA does not survive a fork.
 *  - Empty arrays: an extent may be 0, and the address of an array without elements may be NULL. An output without elements is
 *    success, and nothing is launched, whatever the other addresses are. A sum of nothing is 0: a product with k = 0 is C = beta
 * C, attention without keys is 0 and its lse -infinity, gradients without queries or keys are 0, and the lse of empty rows is
 * -infinity.
 *  - Overlap: every call checks that no element of an output lies where another array of the call has one (OVERLAP). Arrays that
 *    take turns in one memory, as columns of a larger matrix do, are none. The output of add may be an input, and that of softmax
 *    its input, where both have the same strides.
 *  - A stride of 0 repeats elements of an input. An output whose elements overlap each other is INVALID_ARGUMENT.
 *  - Structs that begin with struct_size: those of an older library are taken, their newer members count as 0; those of a newer
 * one are taken where what this library does not know is 0.
 *  - The process may end at any time. Once exit() has begun, a call of another thread that would make a plan is NOT_PLANNED;
 *    plans that are there can still be run.
 *  - Sizes are bytes where the name says so; leading dimensions and strides are elements.
 *  - "Errors" lists every status but AUTOTUNE_OK that a function returns, without AUTOTUNE_. "Capture" says whether it may be
 *    called while a stream is captured, by this thread or by another.
 */
#ifndef AUTOTUNE_AUTOTUNE_H
#define AUTOTUNE_AUTOTUNE_H

#include <stddef.h>
#include <stdint.h>

#if defined(AUTOTUNE_STATIC)
#define AUTOTUNE_API
#else
#define AUTOTUNE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOTUNE_VERSION_MAJOR 0
#define AUTOTUNE_VERSION_MINOR 1
#define AUTOTUNE_VERSION_PATCH 0
#define AUTOTUNE_VERSION (AUTOTUNE_VERSION_MAJOR * 10000 + AUTOTUNE_VERSION_MINOR * 100 + AUTOTUNE_VERSION_PATCH)

/* A CUstream or cudaStream_t. NULL is the legacy default stream. */
struct CUstream_st;

typedef struct autotune_handle_s* autotune_handle;
typedef struct autotune_plan_s* autotune_plan;

typedef enum autotune_status {
    AUTOTUNE_OK = 0,
    AUTOTUNE_INVALID_ARGUMENT = 1,    /* null pointer, extent < 0, leading dimension too small, unknown enum value, ... */
    AUTOTUNE_MISALIGNED = 2,          /* a pointer is less aligned than the plan was made for */
    AUTOTUNE_WORKSPACE_TOO_SMALL = 3, /* fewer bytes than autotune_plan_workspace() said */
    AUTOTUNE_NO_GPU = 4,              /* no driver, no device, or none that is supported (sm_80 is the least) */
    AUTOTUNE_NO_CONTEXT = 5,          /* no CUDA context is current on this thread */
    AUTOTUNE_NO_KERNEL = 6,           /* no kernel family can do this problem on this device */
    AUTOTUNE_NOT_PLANNED = 7,         /* nothing is ready, and the policy, a stream capture or exit() forbids making it */
    AUTOTUNE_COMPILE_FAILED = 8,      /* NVRTC is missing or refused the kernel */
    AUTOTUNE_OUT_OF_MEMORY = 9,       /* of the host or of the device */
    AUTOTUNE_DRIVER_ERROR = 10,       /* a CUDA driver call failed; the message names it */
    AUTOTUNE_FORKED = 11,             /* the object belongs to the parent process */
    AUTOTUNE_INTERNAL_ERROR = 12,     /* a bug of the library */
    AUTOTUNE_OVERLAP = 13             /* an output overlaps another array */
} autotune_status;

/* One sentence for a status; never NULL.
 * Capture: safe. */
AUTOTUNE_API const char* autotune_status_string(autotune_status status);

/* AUTOTUNE_VERSION of the library that is loaded.
 * Capture: safe. */
AUTOTUNE_API int autotune_version(void);
/* The same as text: "0.1.0".
 * Capture: safe. */
AUTOTUNE_API const char* autotune_version_string(void);

/* ---- handle ---- */

typedef enum autotune_log_level { AUTOTUNE_LOG_DEBUG = 0, AUTOTUNE_LOG_INFO = 1, AUTOTUNE_LOG_WARNING = 2 } autotune_log_level;

/* Hears of what is odd but no failure, such as a database that cannot be read. Called on the thread that met it, and possibly on
 * several threads at once. No lock of the library is held: the function may call the library, with the same handle too. Messages
 * of the calls that it makes are dropped. autotune_destroy() of the handle that called it takes effect when the call that is
 * going on has returned; nothing is said any more. An exception that the function throws ends there; pthread_exit() unwinds
 * through the library. Not called once exit() has begun. */
typedef void (*autotune_log_function)(void* user, autotune_log_level level, const char* message);

/* What autotune_tuned_gemm() and autotune_tuned_add() do when the problem has no plan yet. While the stream is being captured,
 * COMPILE acts as LOADED_ONLY. */
typedef enum autotune_on_miss {
    AUTOTUNE_ON_MISS_COMPILE = 0,            /* make the plan now: look up, load or compile (up to a second or so, once) */
    AUTOTUNE_ON_MISS_LOADED_ONLY = 1,        /* run any legal kernel that is already loaded, else AUTOTUNE_NOT_PLANNED */
    AUTOTUNE_ON_MISS_NOT_PLANNED = 2,        /* only what autotune_OP_plan() made, else AUTOTUNE_NOT_PLANNED */
    AUTOTUNE_ON_MISS_BACKGROUND = 3,         /* run the best legal kernel that is loaded now, without waiting, and make the plan
                                              * on a thread of the library: later calls take it as soon as it is there. What is
                                              * captured in a graph stays. autotune_create() compiles small general kernels for
                                              * the usual types and layouts of gemm, so that one is loaded, and loads them into
                                              * the context that is current, if one is; where none can do the problem,
                                              * AUTOTUNE_NOT_PLANNED until the plan is there */
    AUTOTUNE_ON_MISS_RANGE = -0x7fffffff - 1 /* no policy: lets a wrong number arrive and be refused, in C++ too */
} autotune_on_miss;

typedef struct autotune_options {
    size_t struct_size; /* sizeof(autotune_options): how the library tells old callers from new ones */

    /* NULL means not set: with read_environment the default of the `autotune` command, otherwise none. "" means none. Relative
     * paths are looked up in the folder that is current in autotune_create(), whatever chdir() does later. */
    const char* database;     /* path of the database */
    const char* cache_folder; /* folder of compiled kernels, private to the user (0700) */
    const char* shipped;      /* folder of *.jsonl winners; not set: share/autotune/winners beside the library */
    const char* nvrtc;        /* path of a libnvrtc; not set: searched */
    const char* pin;          /* "gemm/mma block_m=128 ...": this config for every gemm (parameters left out: default) */

    autotune_on_miss on_miss;

    /* Non-zero: AUTOTUNE_DB, AUTOTUNE_CACHE_DIR, AUTOTUNE_SHIPPED, AUTOTUNE_NVRTC, AUTOTUNE_PIN, AUTOTUNE_LOG (the least level
     * that is heard: debug, info or warning), XDG_DATA_HOME, XDG_CACHE_HOME and HOME fill what is not set. They are read in
     * autotune_create() alone, and not at all in a program that runs with more rights than its caller (set-user-ID). */
    int read_environment;

    /* Non-zero: problems whose plan found no winner are noted in the database for `autotune sweep --misses`, with what served
     * them, how often they were called (plans and launches; those of a captured graph once) and when last. Written once a minute
     * by a thread of the library, in batches while plans are made, and in autotune_destroy(); never by a launch. The same thread
     * looks for new winners: a plan whose problem has another winner by then is made again when it is asked for next, by
     * autotune_OP_plan(), and by the one-call forms as on_miss says. Plans that a caller holds, and graphs, stay as they are. */
    int record_misses;

    autotune_log_function log; /* NULL: nobody listens */
    void* log_user;            /* its first argument */
} autotune_options;

/* Makes a handle. `options` NULL: all zero but read_environment = 1, that is the set-up of the `autotune` command.
 * Opens the driver (AUTOTUNE_NO_GPU without one), makes no context and compiles nothing but for ON_MISS_BACKGROUND. A database
 * that is missing, broken, locked, foreign or newer is one warning and no winners, never a failure. Errors: INVALID_ARGUMENT,
 * NO_GPU, OUT_OF_MEMORY, DRIVER_ERROR, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_create(autotune_handle* out, const autotune_options* options);

/* Plans made from the handle stay valid. Workspaces of autotune_tuned_gemm() are freed: no work that uses them may be pending,
 * and no captured graph may run again. NULL is allowed. A handle need not be destroyed before the process ends: exit() waits for
 * its threads, at most 5 s, and a handle that is destroyed after that, by a static of the program, say, stays for threads that
 * still use it.
 * Capture: not while a stream of a context that the handle served is captured, for it frees device memory. */
AUTOTUNE_API void autotune_destroy(autotune_handle handle);

/* The sentence of the last failure on this handle by any thread; for NULL, of the last failure of any function on this thread,
 * which is the one to ask for right after a call of this thread failed. The text lives until this thread asks again; that for
 * NULL also until its next failure. Never NULL; "" if nothing failed.
 * Capture: safe. */
AUTOTUNE_API const char* autotune_last_error(autotune_handle handle);

/* Writes misses that are noted but not yet in the database.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_flush_misses(autotune_handle handle);

/* Plans made before are looked up anew when they are asked for next, so that winners which were stored since then are used, those
 * of other extents too: by autotune_OP_plan(), and by the one-call forms as on_miss says. Plans that a caller holds, and graphs,
 * stay as they are. Where neither the database nor the shipped files have changed nothing happens, which takes some 50 us.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_refresh(autotune_handle handle);

/* Waits until the library's own threads have nothing to do (AUTOTUNE_ON_MISS_BACKGROUND).
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_finish(autotune_handle handle);

/* ---- gemm: C = alpha op(A) op(B) + beta C ---- */

/* Of elements. AUTOTUNE_DTYPE_DEFAULT, in a zero-initialised struct, is the type that the command takes where none is given: f16
 * products with f32 accumulation, add of f32, attention of bf16. A tensor of autotune_problem has no default. */
typedef enum autotune_dtype {
    AUTOTUNE_DTYPE_DEFAULT = 0,
    AUTOTUNE_F16 = 1,
    AUTOTUNE_BF16 = 2,
    AUTOTUNE_F32 = 3,
    AUTOTUNE_F64 = 4,
    AUTOTUNE_E4M3 = 5,
    AUTOTUNE_E5M2 = 6,
    AUTOTUNE_I32 = 7,
    AUTOTUNE_I8 = 8,
    AUTOTUNE_DTYPE_RANGE = -0x7fffffff - 1
} autotune_dtype;
typedef enum autotune_order {
    AUTOTUNE_ROW_MAJOR = 0,
    AUTOTUNE_COLUMN_MAJOR = 1,
    AUTOTUNE_ORDER_RANGE = -0x7fffffff - 1
} autotune_order;
typedef enum autotune_beta { AUTOTUNE_BETA_ANY = 0, AUTOTUNE_BETA_ZERO = 1, AUTOTUNE_BETA_RANGE = -0x7fffffff - 1 } autotune_beta;

/* op(A) is m x k, op(B) is k x n, C is m x n. A is stored m x k (k x m if trans_a), B k x n (n x k if trans_b), in `order`.
 * Zero-initialise it, set struct_size, the extents and what is not usual. */
typedef struct autotune_gemm_problem {
    size_t struct_size;         /* sizeof(autotune_gemm_problem) */
    int64_t m, n, k;            /* each >= 0 */
    int64_t batch;              /* 0 means 1 */
    autotune_dtype ab_type;     /* of A and B; default AUTOTUNE_F16 */
    autotune_dtype c_type;      /* of C; default ab_type */
    autotune_dtype accumulator; /* default AUTOTUNE_F32; or AUTOTUNE_F16 with f16 operands */
    autotune_order order;
    int trans_a, trans_b;
    int64_t lda, ldb, ldc;                /* elements from one row (column, if column-major) to the next; 0: dense */
    int64_t stride_a, stride_b, stride_c; /* elements from one batch to the next; 0: dense */
    autotune_beta beta;                   /* ZERO: every call passes beta = 0, and C is not read */

    /* Bytes that the addresses are multiples of: 0 (means 16), 1, 2, 4, 8 or 16. Leading dimensions and strides that are less
     * aligned count too. autotune_tuned_gemm() looks at the addresses instead. */
    int align_a, align_b, align_c;
} autotune_gemm_problem;

typedef enum autotune_origin {
    AUTOTUNE_ORIGIN_EXACT = 0,   /* tuned on such a device for this very problem */
    AUTOTUNE_ORIGIN_SHIPPED = 1, /* the same, by the authors */
    AUTOTUNE_ORIGIN_NEAR = 2,    /* tuned for other extents of the same class */
    AUTOTUNE_ORIGIN_DEFAULT = 3, /* nothing known: the default config that is predicted fastest for about these extents */
    AUTOTUNE_ORIGIN_PINNED = 4,  /* autotune_options.pin */
    AUTOTUNE_ORIGIN_LOADED = 5   /* any legal kernel that was loaded: AUTOTUNE_ON_MISS_LOADED_ONLY */
} autotune_origin;
/* "exact", "shipped", "near", "default", "pinned", "loaded"; never NULL.
 * Capture: safe. */
AUTOTUNE_API const char* autotune_origin_string(autotune_origin origin);

/* Looks up the winner for the current context's device, loads its kernel from the cubin cache or compiles it, and makes it ready
 * to launch. The plan also serves later autotune_tuned_gemm() calls of the same problem: the handle keeps 16 MiB of plans, which
 * is more than a thousand, and those that were not asked for lately leave. With ON_MISS_LOADED_ONLY and ON_MISS_NOT_PLANNED what
 * this function made stays, however much it is. Safe while another thread captures a graph. Threads compile different kernels at
 * the same time; threads that need one kernel wait for the first of them.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe, nothing is enqueued and no capture is disturbed. */
AUTOTUNE_API autotune_status autotune_gemm_plan(autotune_handle handle, const autotune_gemm_problem* problem, autotune_plan* out);

/* Makes ready every kernel that plans of the problem take when its first extent (m) is anything from 1 to the problem's: a server
 * whose batches vary warms its weights so at start. For a kernel that will not compile, what plans fall back on is made ready,
 * with a warning. Their number goes to `kernels`, which may be NULL.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_gemm_warm(autotune_handle handle, const autotune_gemm_problem* problem, size_t* kernels);

/* Bytes of device memory that a call needs, 0 for most plans; aligned to 256. One workspace must not be used by two streams at
 * once.
 * Errors: INVALID_ARGUMENT. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_workspace(autotune_plan plan, size_t* bytes);
/* Leading bytes of the workspace that must be zero before the plan's first call with it. Calls leave them zero. 0 for most
 * plans.
 * Errors: INVALID_ARGUMENT. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_workspace_zero(autotune_plan plan, size_t* bytes);
/* How the kernel was found.
 * Errors: INVALID_ARGUMENT. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_origin(autotune_plan plan, autotune_origin* origin);
/* 1 once another winner may serve the plan's problem: where misses are recorded the library's thread looks once a minute, and an
 * autotune_refresh() that finds a changed file says so of every plan. A plan asked for anew uses the winner; this one still
 * works. 0 before that, and of a plan that was among so many that the handle forgot it. Errors: INVALID_ARGUMENT. Capture: safe.
 */
AUTOTUNE_API autotune_status autotune_plan_is_outdated(autotune_plan plan, int* outdated);
/* "gemm/mma block_m=128 block_n=256 ...": what will run; "common/empty_sum" for sums of nothing, "nothing to compute" where
 * nothing is launched. Lives as long as the plan; "" for NULL. Capture: safe. */
AUTOTUNE_API const char* autotune_plan_candidate(autotune_plan plan);
/* NULL is allowed.
 * Capture: not while its context is captured, for it may unload a kernel. */
AUTOTUNE_API void autotune_plan_destroy(autotune_plan plan);

/* Enqueues the plan's kernels on `stream` and does nothing else: no allocation, no synchronisation, no file, no module load. May
 * be captured in a graph. alpha and beta point to one float each in host memory, read before the function returns.
 * Errors: INVALID_ARGUMENT, MISALIGNED, WORKSPACE_TOO_SMALL, OVERLAP, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_gemm(autotune_plan plan, const void* alpha, const void* a, const void* b, const void* beta,
                                           void* c, void* workspace, size_t workspace_bytes, struct CUstream_st* stream);

/* The one-call form: finds the plan of the problem in the handle's memory, or acts as on_miss says, and enqueues it. The handle
 * owns one workspace per context and stream (and thread, for the per-thread default stream), as large as its largest plan needs,
 * which grows on demand and is given back by autotune_destroy(). Every captured graph has a workspace of its own, so that graphs
 * captured on one stream may run at the same time; it is freed, on a thread of the library, when the graph and all that was
 * instantiated from it are destroyed. Instances of one captured graph share it: they must not run at the same time.
 * `problem->beta` and the aligns are taken from the call.
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_gemm(autotune_handle handle, const autotune_gemm_problem* problem, const void* alpha,
                                                 const void* a, const void* b, const void* beta, void* c,
                                                 struct CUstream_st* stream);

/* ---- add: c = a + b ---- */

/* `length` elements each, without gaps; a matrix of contiguous rows is as long as all of them. Sums are rounded once.
 * Zero-initialise it, set struct_size, length and what is not usual. */
typedef struct autotune_add_problem {
    size_t struct_size;            /* sizeof(autotune_add_problem) */
    int64_t length;                /* 0 to 2^40 */
    autotune_dtype type;           /* default AUTOTUNE_F32 */
    int align_a, align_b, align_c; /* as in autotune_gemm_problem; autotune_tuned_add() looks at the addresses instead */
} autotune_add_problem;

/* As autotune_gemm_plan().
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_add_plan(autotune_handle handle, const autotune_add_problem* problem, autotune_plan* out);

/* Enqueues the plan's kernel on `stream` and does nothing else; may be captured in a graph, and needs no workspace. c may be a or
 * b. A length of 0 launches nothing, whatever the addresses are.
 * Errors: INVALID_ARGUMENT, MISALIGNED, OVERLAP, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is
 * captured. */
AUTOTUNE_API autotune_status autotune_add(autotune_plan plan, const void* a, const void* b, void* c, struct CUstream_st* stream);

/* The one-call form, as autotune_tuned_gemm().
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_add(autotune_handle handle, const autotune_add_problem* problem, const void* a,
                                                const void* b, void* c, struct CUstream_st* stream);

/* ---- attention: O = softmax(scale Q K^T, masked) V of each head, and its gradients ---- */

/* With offset 0, or kv_len - q_len for BOTTOM_RIGHT, query i sees the keys up to i + offset (causal), or from i + offset - left
 * to i + offset + right (window). */
typedef enum autotune_mask {
    AUTOTUNE_MASK_NONE = 0,
    AUTOTUNE_MASK_CAUSAL = 1,
    AUTOTUNE_MASK_CAUSAL_BOTTOM_RIGHT = 2,
    AUTOTUNE_MASK_WINDOW = 3,
    AUTOTUNE_MASK_WINDOW_BOTTOM_RIGHT = 4,
    AUTOTUNE_MASK_RANGE = -0x7fffffff - 1
} autotune_mask;

/* Order of the dimensions in memory: heads outside rows, or rows outside heads. */
typedef enum autotune_layout { AUTOTUNE_BHSD = 0, AUTOTUNE_BSHD = 1, AUTOTUNE_LAYOUT_RANGE = -0x7fffffff - 1 } autotune_layout;

/* Q [batch, q_heads, q_len, d], K [batch, kv_heads, kv_len, d], V [batch, kv_heads, kv_len, dv], O [batch, q_heads, q_len, dv];
 * query heads that share a head of keys are neighbours. Zero-initialise it, set struct_size and what is not 0. */
typedef struct autotune_attention_problem {
    size_t struct_size; /* sizeof(autotune_attention_problem) */
    int64_t batch, q_heads, q_len;
    int64_t kv_heads;    /* 0: q_heads, which is a multiple of it */
    int64_t kv_len;      /* 0: q_len; no keys at all are for autotune_problem to say */
    int64_t d;           /* head size: a multiple of 8 up to 256 */
    int64_t dv;          /* of V and O; 0: d */
    autotune_dtype type; /* AUTOTUNE_BF16, the default, AUTOTUNE_F16 or AUTOTUNE_F32 */
    int tf32;            /* 1: f32 is multiplied in tf32 */
    autotune_mask mask;
    int64_t left, right; /* of a window */
    autotune_layout layout;
    /* Elements from one batch, head and row to the next; all 0: dense in `layout`. Columns are contiguous. Gradients lie as what
     * they are gradients of. */
    int64_t q_strides[3], k_strides[3], v_strides[3], o_strides[3];
    int has_lse; /* 1: attention writes f32 [batch, q_heads, q_len], the logarithm of each row's sum; the gradients always read it
                  */
    int any_order; /* of the gradients: 0: the same input gives the same bits; 1: any order of additions will do */
    /* Above 0: `batch` sequences of different lengths are packed into the rows of Q [1, q_heads, total_q, d] and the like, which
     * AUTOTUNE_BSHD lays out as [total_q, q_heads, d]; q_len and kv_len are those of the longest. lse is [q_heads, total_q].
     * Attention alone. */
    int64_t total_q, total_kv; /* rows of all sequences; total_kv 0: total_q */
} autotune_attention_problem;

/* As autotune_gemm_plan(); autotune_run() takes the addresses in the order q, k, v, o, lse and one f32 scalar, the scale, which
 * is above 0. Of packed sequences q_offsets and kv_offsets follow lse.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_attention_plan(autotune_handle handle, const autotune_attention_problem* problem,
                                                     autotune_plan* out);
/* The one-call form, as autotune_tuned_gemm(). `scale` 0 means 1 / sqrt(d); lse is NULL where the problem has none.
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_attention(autotune_handle handle, const autotune_attention_problem* problem,
                                                      float scale, const void* q, const void* k, const void* v, void* o,
                                                      float* lse, struct CUstream_st* stream);

/* The same of packed sequences, enqueued in the same way: q_offsets and kv_offsets, batch + 1 ascending numbers each in device
 * memory, are the rows at which sequences begin, from 0 to total_q and total_kv. They are not checked, which would take a copy to
 * the host: where they do not ascend, or leave a sequence longer than q_len or kv_len, rows of o are wrong or not written, and
 * nothing else is touched. Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP,
 * COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_attention_packed(autotune_handle handle, const autotune_attention_problem* problem,
                                                             float scale, const void* q, const void* k, const void* v, void* o,
                                                             float* lse, const int32_t* q_offsets, const int32_t* kv_offsets,
                                                             struct CUstream_st* stream);

/* Addresses of one call of the gradients; `o` and `lse` are what attention gave. */
typedef struct autotune_attention_gradients {
    size_t struct_size; /* sizeof(autotune_attention_gradients) */
    const void *q, *k, *v, *o;
    const float* lse;
    const void* d_o;
    void *d_q, *d_k, *d_v;
} autotune_attention_gradients;

/* As autotune_attention_plan(); autotune_run() takes q, k, v, o, lse, do, dq, dk, dv and the scale.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_attention_bwd_plan(autotune_handle handle, const autotune_attention_problem* problem,
                                                         autotune_plan* out);
/* The one-call form.
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_attention_bwd(autotune_handle handle, const autotune_attention_problem* problem,
                                                          float scale, const autotune_attention_gradients* call,
                                                          struct CUstream_st* stream);

/* ---- any op ----
 *
 * One description serves every op; the functions above are adapters of it for some of them. A problem names its op, its tensors
 * and its attributes:
 *
 * - gemm: tensors a [batch, m, k], b [batch, k, n], c [batch, m, n]; of fp8 also, each optional, scale_a, scale_b (f32, as the
 *   attribute scale says), bias [n] (bf16, f16, f32), scale_d [1] and amax_d [1] (f32). Attributes acc (f32, f16; of fp8
 * f32fast), beta (zero, any), layout (nn, nt, tn, tt), order (row, column), compute, scale (none, tensor, row, block). Scalars of
 * a call: alpha and beta, both f32. Any strides with one contiguous dimension of the last two are taken: they say the layout and
 * the order where the attributes do not. a and b may have a batch stride of 0.
 * - add: a, b, c, contiguous and of any rank, without attributes and scalars; c may be a or b.
 * - softmax: x, y, lse (f32, optional), rows contiguous; y may be x, and the rows of x may have a stride of 0. Attribute scale, a
 * number.
 * - attention: q, k, v, o, lse (f32, optional), q_offsets, kv_offsets (i32, optional: packed sequences). Attributes mask, left,
 *   right, compute, max_q, max_kv. A call's scalar: scale, f32.
 * - attention_bwd: q, k, v, o, lse, do, dq, dk, dv; the same, and deterministic (yes, any).
 *
 * Tensors of a problem are found by name. A call passes addresses and scalars in the order of this table. */

#define AUTOTUNE_MAX_DIMS 5

/* One array. Zero-initialise it, set struct_size, name, type, rank and extents. */
typedef struct autotune_tensor {
    size_t struct_size; /* sizeof(autotune_tensor), the same for all tensors of an array */
    const char* name;
    autotune_dtype type;
    int rank;                           /* 0 to AUTOTUNE_MAX_DIMS; leading dimensions of one element may be left out */
    int64_t extents[AUTOTUNE_MAX_DIMS]; /* of the first `rank` dimensions, the outermost first */
    int64_t strides[AUTOTUNE_MAX_DIMS]; /* elements; all 0: dense, the last dimension contiguous. Otherwise 0 repeats what an
                                         * input holds, as one matrix for a whole batch */
    int align;                          /* bytes that the address is a multiple of: 0 (means 16), 1, 2, 4, 8 or 16 */
} autotune_tensor;

typedef enum autotune_attribute_kind {
    AUTOTUNE_ATTRIBUTE_WORD = 0,
    AUTOTUNE_ATTRIBUTE_INTEGER = 1,
    AUTOTUNE_ATTRIBUTE_NUMBER = 2,
    AUTOTUNE_ATTRIBUTE_RANGE = -0x7fffffff - 1
} autotune_attribute_kind;

/* A named word or number of a problem. Those that are left out have the op's usual value. */
typedef struct autotune_attribute {
    size_t struct_size; /* sizeof(autotune_attribute), the same for all attributes of an array */
    const char* name;
    autotune_attribute_kind kind; /* which of the three counts */
    const char* word;
    int64_t integer;
    double number;
} autotune_attribute;

/* A problem of any op. Zero-initialise it, set struct_size, op, tensors and tensor_count. */
typedef struct autotune_problem {
    size_t struct_size; /* sizeof(autotune_problem) */
    const char* op;
    const autotune_tensor* tensors;
    size_t tensor_count;
    const autotune_attribute* attributes;
    size_t attribute_count;
} autotune_problem;

typedef enum autotune_scalar_type {
    AUTOTUNE_SCALAR_F32 = 0,
    AUTOTUNE_SCALAR_I32 = 1,
    AUTOTUNE_SCALAR_U64 = 2
} autotune_scalar_type;

/* A number of a call: the member of `value` that `type` names counts, as f32, i32 or u64. */
typedef struct autotune_scalar {
    autotune_scalar_type type;
    union {
        float f32;
        int32_t i32;
        uint64_t u64;
    } value;
} autotune_scalar;

/* What one launch is given. Zero-initialise it, set struct_size and what the op takes. */
typedef struct autotune_call {
    size_t struct_size;         /* sizeof(autotune_call) */
    const void* const* tensors; /* addresses in device memory, in the op's order; NULL for an optional tensor that was left out */
    size_t tensor_count;
    const autotune_scalar* scalars; /* in host memory, read before the function returns */
    size_t scalar_count;
    void* workspace; /* as autotune_gemm() takes it; autotune_tuned() ignores it and takes the handle's */
    size_t workspace_bytes;
} autotune_call;

/* AUTOTUNE_OK if a kernel family can do the problem on the current context's device. AUTOTUNE_NO_KERNEL with every family's
 * reason if none can, AUTOTUNE_INVALID_ARGUMENT for what is no problem of the op. Compiles nothing.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_supports(autotune_handle handle, const autotune_problem* problem);

/* The problem in the words of the command and the database, its shape last: "gemm a=bf16 b=bf16 ... layout=nt beta=zero
 * align=16,16,16 16x4096x4096". `handle` may be NULL. Writes at most `*bytes` bytes to `text`, the terminating zero included, and
 * sets *bytes to what the whole text takes; `text` may be NULL. AUTOTUNE_INVALID_ARGUMENT for what is no problem of the op.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_problem_key(autotune_handle handle, const autotune_problem* problem, char* text,
                                                  size_t* bytes);

/* As autotune_gemm_plan(), for any op. Nothing of `problem` is kept.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_create(autotune_handle handle, const autotune_problem* problem, autotune_plan* out);

/* As autotune_gemm_warm(), for any op: the first extent of its shape varies.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_warm(autotune_handle handle, const autotune_problem* problem, size_t* kernels);

/* What a plan is. Set struct_size before the call. What a struct of a newer library has beyond this one is filled with 0. */
typedef struct autotune_plan_facts {
    size_t struct_size; /* sizeof(autotune_plan_facts) */
    autotune_origin origin;
    int deterministic;                            /* non-zero: the same input gives the same bits */
    const char* candidate;                        /* as autotune_plan_candidate() */
    double predicted_us;                          /* by the kernel's cost model; 0: not known */
    double recorded_us;                           /* of the stored winner, as it was measured for this very problem; 0: none */
    size_t workspace_bytes, workspace_zero_bytes; /* as autotune_plan_workspace(), autotune_plan_workspace_zero() */
    double recorded_rival_us;                     /* of the fastest vendor library in the rounds of recorded_us; 0: none ran */

    /* A gemm's plan for any beta has a kernel of its own for calls with beta = 0 where a winner was tuned for that. "" and the
     * plan's own origin where it has not. */
    const char* candidate_when_zero;
    autotune_origin origin_when_zero;
    /* How much slower than the best kernel known such a choice is in the median of problems that were left out, of its
     * portfolio's making or of the winners stored for the class: 0.04 is 4 %. 0 for a winner of this very problem; negative: not
     * known. */
    double expected_regret;
} autotune_plan_facts;
/* Fills `facts`. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_info(autotune_plan plan, autotune_plan_facts* facts);

/* Enqueues any plan's kernels on `stream` and does nothing else, as autotune_gemm() does; may be captured in a graph.
 * Errors: INVALID_ARGUMENT, MISALIGNED, WORKSPACE_TOO_SMALL, OVERLAP, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_run(autotune_plan plan, const autotune_call* call, struct CUstream_st* stream);

/* The one-call form, as autotune_tuned_gemm(): alignments are taken from the call's addresses.
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned(autotune_handle handle, const autotune_problem* problem, const autotune_call* call,
                                            struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif
