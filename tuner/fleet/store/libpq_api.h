#pragma once

namespace autotune::fleet {

// The functions of libpq.so.5 that the store calls, as libpq-fe.h declares them, with void* for PGconn and PGresult and int for
// its enums. They have been the same since PostgreSQL 12, so building needs no package of PostgreSQL; a test compares them with
// the header where that is installed.
struct LibpqApi {
    void* (*connect)(const char* const* names, const char* const* values, int expand_dbname);
    void (*finish)(void* connection);
    int (*status)(const void* connection);
    char* (*error_message)(const void* connection);
    int (*socket)(const void* connection);
    int (*set_nonblocking)(void* connection, int on);
    int (*send_parameters)(void* connection, const char* sql, int count, const unsigned* types, const char* const* values,
                           const int* lengths, const int* formats, int result_format);
    int (*send)(void* connection, const char* sql);
    int (*flush)(void* connection);
    int (*consume)(void* connection);
    int (*is_busy)(void* connection);
    void* (*result)(void* connection);
    int (*result_status)(const void* result);
    char* (*error_field)(const void* result, int field);
    void (*clear)(void* result);
    int (*tuples)(const void* result);
    int (*fields)(const void* result);
    char* (*value)(const void* result, int row, int column);
    int (*is_null)(const void* result, int row, int column);
    int (*length)(const void* result, int row, int column);
};

}  // namespace autotune::fleet
