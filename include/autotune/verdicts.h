/* Verdicts: how kernels of this library do in a program beside another library's for the same calls, kept in the database so that
 * every process decides alike and none races again. The package autotune.torch stores those of tune() and reads them in patch().
 * The conventions of autotune.h hold. Any number of processes may read and write at once. */
#ifndef AUTOTUNE_VERDICTS_H
#define AUTOTUNE_VERDICTS_H

#include <autotune/autotune.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One verdict. The texts are the caller's own words, UTF-8 without control characters. */
typedef struct autotune_verdict {
    size_t struct_size;  /* sizeof(autotune_verdict) */
    const char* problem; /* 1 to 4000 bytes */
    const char* device;  /* 1 to 256 bytes */
    const char* rival;   /* the other library and its version, 1 to 256 bytes */
    double in_stream;    /* the rival's time over ours, above 1 where ours is faster; between 1e-6 and 1e6 */
    double in_graphs;    /* the same within a CUDA graph */
} autotune_verdict;

/* Stores `count` verdicts, all or none. Each replaces the one of the same problem, device and rival; of all that are stored the
 * newest 50,000 are kept. `database`: a path, or NULL for the file that a handle with standard options uses. A file that does not
 * exist is made. Waits up to 10 s for other writers. If the file cannot be written, autotune_last_error(NULL) says why.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_put_verdicts(const char* database, const autotune_verdict* verdicts, size_t count);

/* Receives a verdict, which is valid until it returns. It must not call the library. */
typedef void (*autotune_verdict_function)(void* user, const autotune_verdict* verdict);

/* Calls `use` with each stored verdict against `rival`, or against all rivals if it is NULL, oldest first, on this thread. A
 * database that does not exist yet has none. `database`: as for autotune_put_verdicts(), but NULL with AUTOTUNE_LABEL set means
 * the label's file: its verdicts alone count then. If the file cannot be read, autotune_last_error(NULL) says why.
 * Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, INTERNAL_ERROR. Capture: safe. */
AUTOTUNE_API autotune_status autotune_read_verdicts(const char* database, const char* rival, autotune_verdict_function use,
                                                    void* user);

#ifdef __cplusplus
}
#endif

#endif
