/* autotune: the fastest known kernel for one problem on one GPU, looked up and launched.
 *
 * The library takes kernels from the database that the `autotune` command fills, from winners shipped with it, or a default. It
 * compiles kernels that are not in its cubin cache with NVRTC, in this process, and launches through the driver. It never tunes.
 *
 * Rules that hold for every function:
 *  - Failure is a status other than AUTOTUNE_OK, with a sentence in autotune_last_error(). Nothing is printed, nothing exits, and
 *    no C++ exception leaves the library.
 *  - Thread-safe: one handle and one plan may be used by many threads at once. Creating and destroying an object excludes other
 *    uses of the same object.
 *  - GPU work goes to the CUDA context that is current on the calling thread; the library creates none. One handle serves every
 *    GPU of the process. A plan belongs to the context in which it was made and is refused if another one is current
 *    (INVALID_ARGUMENT); a handle makes a separate plan for each context.
 *  - After fork() the child gets AUTOTUNE_FORKED from handles and plans of its parent: CUDA does not survive a fork.
 *  - Empty arrays: an extent may be 0, and the address of an array without elements may be NULL. A call whose output has no
 *    elements succeeds and launches nothing, whatever the other addresses are. A sum without terms is 0: a product with k = 0
 *    gives C = beta C, attention without keys gives 0 and an lse of -infinity, gradients without queries or keys are 0, and the
 *    lse of empty rows is -infinity.
 *  - Overlap: every call checks that no element of an output overlaps another array of the call (OVERLAP). Arrays that alternate
 *    in one memory, such as columns of a larger matrix, do not overlap. The output of add may be one of its inputs, and that of
 *    softmax its input, if both have the same strides.
 *  - A stride of 0 repeats elements of an input. An output whose elements overlap each other is INVALID_ARGUMENT.
 *  - Structs that begin with struct_size may come from another version: members that an older struct lacks count as 0; a newer
 *    struct is accepted if the members that this library does not know are 0.
 *  - The process may end at any time. Once exit() has begun, a call on another thread that would make a plan returns NOT_PLANNED;
 *    existing plans can still be run.
 *  - Sizes are in bytes if the name says so; leading dimensions and strides are in elements.
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
    AUTOTUNE_WORKSPACE_TOO_SMALL = 3, /* fewer bytes than autotune_plan_workspace() gives */
    AUTOTUNE_NO_GPU = 4,              /* no driver, no device, or none that is supported (sm_80 or later) */
    AUTOTUNE_NO_CONTEXT = 5,          /* no CUDA context is current on this thread */
    AUTOTUNE_NO_KERNEL = 6,           /* no kernel family can do this problem on this device */
    AUTOTUNE_NOT_PLANNED = 7,         /* no kernel is ready, and the policy, a stream capture or exit() forbids making one */
    AUTOTUNE_COMPILE_FAILED = 8,      /* NVRTC is missing or refused the kernel */
    AUTOTUNE_OUT_OF_MEMORY = 9,       /* on the host or the device */
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

/* Receives messages about problems that are not failures, such as a database that cannot be read. Called on the thread that finds
 * the problem, possibly on several threads at once. No lock of the library is held, so the function may call the library, even
 * with the same handle. Messages of the calls that it makes are dropped. If it destroys the handle that called it, that takes
 * effect when the current call returns, and no more messages come. An exception that the function throws has no effect;
 * pthread_exit() unwinds through the library. Not called once exit() has begun. */
typedef void (*autotune_log_function)(void* user, autotune_log_level level, const char* message);

/* How one-call forms such as autotune_tuned_gemm() serve a problem that has no plan yet. While the stream is being captured,
 * COMPILE acts as LOADED_ONLY. */
typedef enum autotune_on_miss {
    AUTOTUNE_ON_MISS_COMPILE = 0,            /* make the plan now: look up, load or compile (up to about a second, once) */
    AUTOTUNE_ON_MISS_LOADED_ONLY = 1,        /* run any legal kernel that is already loaded, else AUTOTUNE_NOT_PLANNED */
    AUTOTUNE_ON_MISS_NOT_PLANNED = 2,        /* only plans that autotune_OP_plan() made, else AUTOTUNE_NOT_PLANNED */
    AUTOTUNE_ON_MISS_BACKGROUND = 3,         /* run the best legal kernel that is loaded, without waiting, and make the plan on
                                              * a thread of the library: later calls use it once it is ready. Captured graphs
                                              * keep their kernel. autotune_create() compiles small general kernels for the
                                              * usual types and layouts of gemm, so that one is always loaded, and loads them
                                              * into the current context, if there is one. If no loaded kernel can do the
                                              * problem: AUTOTUNE_NOT_PLANNED until the plan is ready */
    AUTOTUNE_ON_MISS_RANGE = -0x7fffffff - 1 /* not a policy: lets an invalid number be passed, and refused, in C++ too */
} autotune_on_miss;

typedef struct autotune_options {
    size_t struct_size; /* sizeof(autotune_options): tells the library the caller's version */

    /* NULL means not set: with read_environment the default of the `autotune` command, otherwise none. "" means none. Relative
     * paths refer to the folder that is current in autotune_create(), even after a later chdir(). */
    const char* database;     /* path of the database */
    const char* cache_folder; /* folder of compiled kernels, private to the user (0700) */
    const char* shipped;      /* folder of *.jsonl winners; not set: share/autotune/winners of the library's installation */
    const char* nvrtc;        /* path of a libnvrtc; not set: searched */
    const char* pin;          /* "gemm/mma block_m=128 ...": this config for every gemm (parameters left out: default) */

    autotune_on_miss on_miss;

    /* Non-zero: members that are not set are taken from AUTOTUNE_DB, AUTOTUNE_CACHE_DIR, AUTOTUNE_SHIPPED, AUTOTUNE_NVRTC,
     * AUTOTUNE_PIN, AUTOTUNE_LABEL, AUTOTUNE_FLEET (folder of labels), AUTOTUNE_LOG (the lowest level that is logged: debug, info
     * or warning), XDG_DATA_HOME, XDG_CACHE_HOME and HOME. They are read only in autotune_create(), and not at all in a program
     * that runs with more rights than its caller (set-user-ID). */
    int read_environment;

    /* Non-zero: problems for which no winner was found are recorded in the database for `autotune sweep --misses`, with the
     * kernel's origin, the number of calls (plans and launches; those of a captured graph count once) and the time of the last
     * one. They are written once a minute by a thread of the library, in batches while plans are made, and in
     * autotune_destroy(); never by a launch. The same thread looks for new winners: a plan whose problem has another winner by
     * then is made again the next time it is requested, by autotune_OP_plan(), or by the one-call forms according to on_miss.
     * Plans that a caller holds, and graphs, do not change. */
    int record_misses;

    autotune_log_function log; /* NULL: no messages */
    void* log_user;            /* its first argument */

    /* A label: a set of winners that never changes, which `autotune sync` has brought (docs/fleet.md). Its name, the name of a
     * channel, or the path of its file; not set: AUTOTUNE_LABEL, with read_environment, else none. With a label every process
     * that has the same agreement (autotune_agreement()) runs the same kernel for a problem: winners come from the label and from
     * the shipped files alone, nothing depends on the order of calls, on what is compiled, or on time, and files are read once.
     * ON_MISS_BACKGROUND acts as COMPILE, LOADED_ONLY as NOT_PLANNED, and so does COMPILE while the stream is captured. A label
     * that cannot be used gives one warning, and counts as one without winners. */
    const char* label;
} autotune_options;

/* Makes a handle. `options` NULL: all zero except read_environment = 1, which gives the settings of the `autotune` command.
 * Opens the driver (AUTOTUNE_NO_GPU without one), makes no context, and compiles nothing, except with ON_MISS_BACKGROUND. A
 * database that is missing, broken, locked, foreign or newer gives one warning and no winners, and is never a failure.
 * Errors: INVALID_ARGUMENT, NO_GPU, OUT_OF_MEMORY, DRIVER_ERROR, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_create(autotune_handle* out, const autotune_options* options);

/* Destroys a handle. Its plans stay valid. Workspaces of the one-call forms are freed: no work that uses them may be pending, and
 * no captured graph that uses them may run again. NULL is allowed. A handle need not be destroyed before the process ends: exit()
 * waits for its threads, at most 5 s. A handle that is destroyed later, for example by a static of the program, stays in memory
 * for threads that still use it.
 * Capture: not while a stream of a context that the handle served is captured, because it frees device memory. */
AUTOTUNE_API void autotune_destroy(autotune_handle handle);

/* The message of the last failure on this handle, on any thread; for NULL, of the last failure of any function on this thread:
 * use that right after a call of this thread has failed. The text lives until this thread calls this function again; that for
 * NULL only until the thread's next failure. Never NULL; "" if nothing failed.
 * Capture: safe. */
AUTOTUNE_API const char* autotune_last_error(autotune_handle handle);

/* Writes recorded misses that are not in the database yet.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_flush_misses(autotune_handle handle);

/* Makes the handle look up existing plans again the next time they are requested, so that winners stored since then are used,
 * including those of other extents: by autotune_OP_plan(), or by the one-call forms according to on_miss. Plans that a caller
 * holds, and graphs, do not change. Does nothing if neither the database nor the shipped files have changed; that takes some
 * 50 us.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_refresh(autotune_handle handle);

/* What decides which kernels the handle runs with a label: 32 bytes that are equal in two processes if and only if their parts
 * are. The parts are lines of text, "NAME VALUE": the library's version, its kernels, the label's digest, the shipped winners',
 * the pin, the policy, the NVRTC and the device of the current context (or the first one). Processes that must run the same
 * kernels compare the bytes once; the parts tell what differs. `digest` may be NULL. Writes at most `*bytes` bytes of the parts
 * to `text`, including the terminating zero, and sets *bytes to the size of the whole text; `text` and `bytes` may be NULL. Reads
 * all files that winners come from, which takes some 20 ms. Errors: INVALID_ARGUMENT, NO_GPU, OUT_OF_MEMORY, DRIVER_ERROR,
 * FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_agreement(autotune_handle handle, unsigned char digest[32], char* text, size_t* bytes);

/* Waits until the library's own threads are idle (AUTOTUNE_ON_MISS_BACKGROUND).
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_finish(autotune_handle handle);

/* ---- gemm: C = alpha op(A) op(B) + beta C ---- */

/* Element types. AUTOTUNE_DTYPE_DEFAULT, the value in a zero-initialised struct, is the command's default: f16 for products, with
 * f32 accumulation; f32 for add; bf16 for attention. Tensors of autotune_problem have no default. */
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
    AUTOTUNE_U8 = 9,
    AUTOTUNE_I16 = 10,
    AUTOTUNE_U16 = 11,
    AUTOTUNE_U32 = 12,
    AUTOTUNE_I64 = 13,
    AUTOTUNE_U64 = 14,
    AUTOTUNE_DTYPE_RANGE = -0x7fffffff - 1
} autotune_dtype;
typedef enum autotune_order {
    AUTOTUNE_ROW_MAJOR = 0,
    AUTOTUNE_COLUMN_MAJOR = 1,
    AUTOTUNE_ORDER_RANGE = -0x7fffffff - 1
} autotune_order;
typedef enum autotune_beta { AUTOTUNE_BETA_ANY = 0, AUTOTUNE_BETA_ZERO = 1, AUTOTUNE_BETA_RANGE = -0x7fffffff - 1 } autotune_beta;

/* op(A) is m x k, op(B) is k x n, C is m x n. A is stored m x k (k x m if trans_a), B k x n (n x k if trans_b), in `order`.
 * Zero-initialise it, then set struct_size, the extents and the members that differ from the defaults. */
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

    /* The addresses are multiples of this many bytes: 0 (means 16), 1, 2, 4, 8 or 16. Less aligned leading dimensions and strides
     * reduce it. autotune_tuned_gemm() uses the alignment of the addresses instead. */
    int align_a, align_b, align_c;
} autotune_gemm_problem;

typedef enum autotune_origin {
    AUTOTUNE_ORIGIN_EXACT = 0,   /* tuned on such a device for exactly this problem */
    AUTOTUNE_ORIGIN_SHIPPED = 1, /* the same, by the authors */
    AUTOTUNE_ORIGIN_NEAR = 2,    /* tuned for other extents of the same class */
    AUTOTUNE_ORIGIN_DEFAULT = 3, /* no winner: the default config that is predicted fastest for about these extents */
    AUTOTUNE_ORIGIN_PINNED = 4,  /* autotune_options.pin */
    AUTOTUNE_ORIGIN_LOADED = 5,  /* any legal kernel that was loaded: AUTOTUNE_ON_MISS_LOADED_ONLY */
    AUTOTUNE_ORIGIN_LABEL = 6    /* a winner of the label, for exactly this problem */
} autotune_origin;
/* "exact", "shipped", "near", "default", "pinned", "loaded", "label"; never NULL.
 * Capture: safe. */
AUTOTUNE_API const char* autotune_origin_string(autotune_origin origin);

/* Makes a plan: looks up the winner for the current context's device, and loads its kernel from the cubin cache or compiles it.
 * The plan also serves later autotune_tuned_gemm() calls for the same problem. The handle keeps 16 MiB of plans, which is more
 * than a thousand; the least recently used ones are dropped. With ON_MISS_LOADED_ONLY and ON_MISS_NOT_PLANNED plans made by this
 * function are never dropped. Safe while another thread captures a graph. Threads compile different kernels at the same time;
 * threads that need the same kernel wait for the first of them.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe, nothing is enqueued and no capture is disturbed. */
AUTOTUNE_API autotune_status autotune_gemm_plan(autotune_handle handle, const autotune_gemm_problem* problem, autotune_plan* out);

/* Loads every kernel that plans use for first extents (m) from 1 to the problem's: a server whose batches vary calls this for its
 * weights at start. If a kernel does not compile, the one that plans use instead is loaded, with a warning. `kernels`, which may
 * be NULL, receives the number of kernels.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_gemm_warm(autotune_handle handle, const autotune_gemm_problem* problem, size_t* kernels);

/* Bytes of device memory that a call needs as its workspace, aligned to 256; 0 for most plans. Two streams must not use one
 * workspace at the same time.
 * Errors: INVALID_ARGUMENT. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_workspace(autotune_plan plan, size_t* bytes);
/* Leading bytes of the workspace that must be zero before the plan's first call with it; 0 for most plans. Calls set them to zero
 * again.
 * Errors: INVALID_ARGUMENT. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_workspace_zero(autotune_plan plan, size_t* bytes);
/* How the kernel was found.
 * Errors: INVALID_ARGUMENT. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_origin(autotune_plan plan, autotune_origin* origin);
/* `outdated` becomes 1 if another winner may serve the plan's problem by now. With record_misses a thread of the library checks
 * once a minute; an autotune_refresh() that finds a changed file marks every plan. A newly requested plan uses the winner; this
 * one still works. 0 otherwise, and for a plan that the handle has dropped.
 * Errors: INVALID_ARGUMENT. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_is_outdated(autotune_plan plan, int* outdated);
/* The kernel and config that will run: "gemm/mma block_m=128 block_n=256 ..."; "common/empty_sum" for sums without terms,
 * "nothing to compute" if nothing is launched. Lives as long as the plan; "" for NULL. Capture: safe. */
AUTOTUNE_API const char* autotune_plan_candidate(autotune_plan plan);
/* Destroys a plan; NULL is allowed.
 * Capture: not while a stream of its context is captured, because it may unload a kernel. */
AUTOTUNE_API void autotune_plan_destroy(autotune_plan plan);

/* Enqueues the plan's kernels on `stream` and does nothing else: no allocation, synchronisation, file access or module load. May
 * be captured in a graph. alpha and beta point to one float each in host memory, read before the function returns.
 * Errors: INVALID_ARGUMENT, MISALIGNED, WORKSPACE_TOO_SMALL, OVERLAP, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_gemm(autotune_plan plan, const void* alpha, const void* a, const void* b, const void* beta,
                                           void* c, void* workspace, size_t workspace_bytes, struct CUstream_st* stream);

/* The one-call form: finds the problem's plan in the handle, or acts according to on_miss, and enqueues it. The handle owns one
 * workspace per context and stream (and per thread, for the per-thread default stream). It is as large as its largest plan needs,
 * grows on demand, and is freed by autotune_destroy(). Every captured graph has its own workspace, so that graphs captured on one
 * stream may run at the same time; it is freed, on a thread of the library, once the graph and everything instantiated from it
 * are destroyed. Instances of one captured graph share it and must not run at the same time. `problem->beta` and the alignments
 * are taken from the call.
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_gemm(autotune_handle handle, const autotune_gemm_problem* problem, const void* alpha,
                                                 const void* a, const void* b, const void* beta, void* c,
                                                 struct CUstream_st* stream);

/* ---- add: c = a + b ---- */

/* Arrays of `length` elements each, without gaps; for a matrix of contiguous rows, the length of all rows together. Each sum is
 * rounded once. Zero-initialise it, then set struct_size, length and the members that differ from the defaults. */
typedef struct autotune_add_problem {
    size_t struct_size;            /* sizeof(autotune_add_problem) */
    int64_t length;                /* 0 to 2^40 */
    autotune_dtype type;           /* default AUTOTUNE_F32 */
    int align_a, align_b, align_c; /* as in autotune_gemm_problem; autotune_tuned_add() uses the addresses' alignment */
} autotune_add_problem;

/* Like autotune_gemm_plan().
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_add_plan(autotune_handle handle, const autotune_add_problem* problem, autotune_plan* out);

/* Enqueues the plan's kernel on `stream` and does nothing else; may be captured in a graph, and needs no workspace. c may be a or
 * b. With a length of 0 nothing is launched, whatever the addresses are.
 * Errors: INVALID_ARGUMENT, MISALIGNED, OVERLAP, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is
 * captured. */
AUTOTUNE_API autotune_status autotune_add(autotune_plan plan, const void* a, const void* b, void* c, struct CUstream_st* stream);

/* The one-call form, like autotune_tuned_gemm().
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
 * query heads that share a head of keys are adjacent. Zero-initialise it, then set struct_size and the members that are not 0. */
typedef struct autotune_attention_problem {
    size_t struct_size; /* sizeof(autotune_attention_problem) */
    int64_t batch, q_heads, q_len;
    int64_t kv_heads;    /* 0: q_heads; divides q_heads */
    int64_t kv_len;      /* 0: q_len; a problem without keys needs autotune_problem */
    int64_t d;           /* head size: a multiple of 8 up to 256 */
    int64_t dv;          /* of V and O; 0: d */
    autotune_dtype type; /* AUTOTUNE_BF16, the default, AUTOTUNE_F16 or AUTOTUNE_F32 */
    int tf32;            /* 1: f32 operands are multiplied in tf32 */
    autotune_mask mask;
    int64_t left, right; /* of a window */
    autotune_layout layout;
    /* Elements from one batch, head and row to the next; all 0: dense in `layout`. Columns are contiguous. Gradients have the
     * strides of the tensors that they are gradients of. */
    int64_t q_strides[3], k_strides[3], v_strides[3], o_strides[3];
    int has_lse; /* 1: attention writes f32 [batch, q_heads, q_len], the logarithm of each row's sum; the gradients always read it
                  */
    int any_order; /* of the gradients: 0: the same input gives the same bits; 1: any order of additions will do */
    /* Above 0: `batch` sequences of different lengths are packed into the rows of Q [1, q_heads, total_q, d], and likewise of the
     * other tensors; with AUTOTUNE_BSHD Q is [total_q, q_heads, d] in memory. q_len and kv_len are the longest lengths. lse is
     * [q_heads, total_q]. Not for the gradients. */
    int64_t total_q, total_kv; /* rows of all sequences; total_kv 0: total_q */
} autotune_attention_problem;

/* Like autotune_gemm_plan(). autotune_run() takes the addresses in the order q, k, v, o, lse, followed by q_offsets and
 * kv_offsets for packed sequences, and one f32 scalar, the scale, which is above 0.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_attention_plan(autotune_handle handle, const autotune_attention_problem* problem,
                                                     autotune_plan* out);
/* The one-call form, like autotune_tuned_gemm(). `scale` 0 means 1 / sqrt(d); lse is NULL if the problem has none.
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_attention(autotune_handle handle, const autotune_attention_problem* problem,
                                                      float scale, const void* q, const void* k, const void* v, void* o,
                                                      float* lse, struct CUstream_st* stream);

/* The same for packed sequences, enqueued in the same way. q_offsets and kv_offsets, batch + 1 ascending numbers each in device
 * memory, are the rows at which sequences begin, from 0 to total_q and total_kv. They are not checked, because that would need a
 * copy to the host: if they do not ascend, or a sequence is longer than q_len or kv_len, rows of o are wrong or not written, but
 * nothing else is changed. Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP,
 * COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned_attention_packed(autotune_handle handle, const autotune_attention_problem* problem,
                                                             float scale, const void* q, const void* k, const void* v, void* o,
                                                             float* lse, const int32_t* q_offsets, const int32_t* kv_offsets,
                                                             struct CUstream_st* stream);

/* Addresses of one call of the gradients; `o` and `lse` are the results of attention. */
typedef struct autotune_attention_gradients {
    size_t struct_size; /* sizeof(autotune_attention_gradients) */
    const void *q, *k, *v, *o;
    const float* lse;
    const void* d_o;
    void *d_q, *d_k, *d_v;
} autotune_attention_gradients;

/* Like autotune_attention_plan(). autotune_run() takes q, k, v, o, lse, do, dq, dk, dv and the scale.
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
 * One description serves every op; the functions above convert to it for some ops. A problem names its op, its tensors and its
 * attributes:
 *
 * - gemm: tensors a [batch, m, k], b [batch, k, n], c [batch, m, n]; for fp8 also, each optional, scale_a, scale_b (f32, with the
 *   extents that the attribute scale gives), bias [n] (bf16, f16, f32), scale_d [1] and amax_d [1] (f32). Attributes acc (f32,
 *   f16; for fp8 also f32fast), beta (zero, any), layout (nn, nt, tn, tt), order (row, column), compute, scale (none, tensor,
 *   row, block). Scalars of a call: alpha and beta, both f32. Strides may be any with one of the last two dimensions contiguous;
 *   they determine layout and order if the attributes do not. a and b may have a batch stride of 0.
 * - add: a, b, c, contiguous and of any rank, without attributes and scalars; c may be a or b.
 * - softmax: x, y, lse (f32, optional), rows contiguous; y may be x, and the rows of x may have a stride of 0. Attribute scale, a
 *   number.
 * - attention: q, k, v, o, lse (f32, optional), q_offsets, kv_offsets (i32, optional: packed sequences). Attributes mask, left,
 *   right, compute, max_q, max_kv. A call's scalar: scale, f32.
 * - attention_bwd: q, k, v, o, lse, do, dq, dk, dv; the same, and deterministic (yes, any).
 *
 * - user_NAME: the op of a kernel file, by autotune_kernel_open(). Tensors, scalars and attributes are those of the file, in its
 *   order. An extent that is no tensor's dimension by itself is an integer attribute of its name.
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
    int64_t strides[AUTOTUNE_MAX_DIMS]; /* elements; all 0: dense, the last dimension contiguous. Otherwise a stride of 0
                                         * repeats an input's elements, such as one matrix for a whole batch */
    int align;                          /* the address is a multiple of this many bytes: 0 (means 16), 1, 2, 4, 8 or 16 */
} autotune_tensor;

typedef enum autotune_attribute_kind {
    AUTOTUNE_ATTRIBUTE_WORD = 0,
    AUTOTUNE_ATTRIBUTE_INTEGER = 1,
    AUTOTUNE_ATTRIBUTE_NUMBER = 2,
    AUTOTUNE_ATTRIBUTE_RANGE = -0x7fffffff - 1
} autotune_attribute_kind;

/* A named word or number of a problem. Attributes that are left out have the op's default. */
typedef struct autotune_attribute {
    size_t struct_size; /* sizeof(autotune_attribute), the same for all attributes of an array */
    const char* name;
    autotune_attribute_kind kind; /* which of the three members below is used */
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

/* A number of a call: `type` selects the member of `value`: f32, i32 or u64. */
typedef struct autotune_scalar {
    autotune_scalar_type type;
    union {
        float f32;
        int32_t i32;
        uint64_t u64;
    } value;
} autotune_scalar;

/* The arguments of one launch. Zero-initialise it, then set struct_size and the members that the op takes. */
typedef struct autotune_call {
    size_t struct_size;         /* sizeof(autotune_call) */
    const void* const* tensors; /* addresses in device memory, in the op's order; NULL for an optional tensor that was left out */
    size_t tensor_count;
    const autotune_scalar* scalars; /* in host memory, read before the function returns */
    size_t scalar_count;
    void* workspace; /* as for autotune_gemm(); autotune_tuned() ignores it and uses the handle's */
    size_t workspace_bytes;
} autotune_call;

/* AUTOTUNE_OK if a kernel family can do the problem on the current context's device. AUTOTUNE_NO_KERNEL with every family's
 * reason if none can, AUTOTUNE_INVALID_ARGUMENT if it is not a problem of the op. Compiles nothing.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_supports(autotune_handle handle, const autotune_problem* problem);

/* The problem in the words of the command and the database, its shape last: "gemm a=bf16 b=bf16 ... layout=nt beta=zero
 * align=16,16,16 16x4096x4096". `handle` may be NULL. Writes at most `*bytes` bytes to `text`, including the terminating zero,
 * and sets *bytes to the size of the whole text; `text` may be NULL. AUTOTUNE_INVALID_ARGUMENT if it is not a problem of the op.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_problem_key(autotune_handle handle, const autotune_problem* problem, char* text,
                                                  size_t* bytes);

/* Like autotune_gemm_plan(), for any op. Copies what it needs of `problem`.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_create(autotune_handle handle, const autotune_problem* problem, autotune_plan* out);

/* Like autotune_gemm_warm(), for any op: the first extent of its shape varies.
 * Errors: INVALID_ARGUMENT, NO_GPU, NO_CONTEXT, NO_KERNEL, COMPILE_FAILED, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe. */
AUTOTUNE_API autotune_status autotune_warm(autotune_handle handle, const autotune_problem* problem, size_t* kernels);

/* ---- kernels of the program's own ----
 *
 * A kernel file describes a CUDA kernel of the program (docs/kernel_files.md). Its op is then one of the ops above: plans,
 * one-call forms and misses work as for any other. A plan has the winner of the same file and problem if there is one, else the
 * nearest winner of the same file, else the file's default config. */

/* Reads the kernel file at `path`, its source and its headers, and makes its op known to this handle; compiles nothing, starts
 * nothing. The file is code that will run with the rights of this process. The same content again is the same op; another content
 * of an op that this handle has opened is INVALID_ARGUMENT. Writes the op's name, "user_" and that of the file, to `name`, at
 * most
 * `*bytes` bytes including the terminating zero, and sets *bytes to the size of the whole name; `name` may be NULL.
 * Errors: INVALID_ARGUMENT with the file's first fault, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_kernel_open(autotune_handle handle, const char* path, char* name, size_t* bytes);

/* How problems and calls of an opened op are described, a line for each, in the order of a call: "tensor NAME in" (out, inout),
 * "scalar NAME f32" (i32, u64), "attribute NAME VALUE VALUE ...", "extent NAME of tensors" (of attributes). Writes like
 * autotune_kernel_open().
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, FORKED, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_kernel_interface(autotune_handle handle, const char* name, char* text, size_t* bytes);

/* Facts about a plan. Set struct_size before the call. Members that this library does not know yet are set to 0. */
typedef struct autotune_plan_facts {
    size_t struct_size; /* sizeof(autotune_plan_facts) */
    autotune_origin origin;
    int deterministic;                            /* non-zero: the same input gives the same bits */
    const char* candidate;                        /* as autotune_plan_candidate() */
    double predicted_us;                          /* by the kernel's cost model; 0: unknown */
    double recorded_us;                           /* measured time of the stored winner of exactly this problem; 0: none */
    size_t workspace_bytes, workspace_zero_bytes; /* as autotune_plan_workspace(), autotune_plan_workspace_zero() */
    double recorded_rival_us;                     /* of the fastest vendor library in the same rounds; 0: none ran */

    /* A gemm's plan for any beta has a separate kernel for calls with beta = 0 if a winner was tuned for them. Otherwise "" and
     * the plan's own origin. */
    const char* candidate_when_zero;
    autotune_origin origin_when_zero;
    /* How much slower than the best known kernel such a choice is, as the median over problems that were left out when its
     * portfolio was made, or over winners of the class, each left out in turn: 0.04 is 4 %. 0 for a winner of exactly this
     * problem; negative: unknown. */
    double expected_regret;
} autotune_plan_facts;
/* Fills `facts`. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY. Capture: safe. */
AUTOTUNE_API autotune_status autotune_plan_info(autotune_plan plan, autotune_plan_facts* facts);

/* Enqueues any plan's kernels on `stream` and does nothing else, like autotune_gemm(); may be captured in a graph.
 * Errors: INVALID_ARGUMENT, MISALIGNED, WORKSPACE_TOO_SMALL, OVERLAP, OUT_OF_MEMORY, DRIVER_ERROR, FORKED, INTERNAL_ERROR.
 * Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_run(autotune_plan plan, const autotune_call* call, struct CUstream_st* stream);

/* The one-call form, like autotune_tuned_gemm(): alignments are taken from the call's addresses.
 * Errors: INVALID_ARGUMENT, MISALIGNED, NO_GPU, NO_CONTEXT, NO_KERNEL, NOT_PLANNED, OVERLAP, COMPILE_FAILED, OUT_OF_MEMORY,
 * DRIVER_ERROR, FORKED, INTERNAL_ERROR. Capture: safe; is captured. */
AUTOTUNE_API autotune_status autotune_tuned(autotune_handle handle, const autotune_problem* problem, const autotune_call* call,
                                            struct CUstream_st* stream);

#ifdef __cplusplus
}
#endif

#endif
