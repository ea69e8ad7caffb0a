#include "src/gpu/driver/borrowed_context.h"

#include <utility>

#include "src/gpu/driver/driver_api.h"

namespace autotune::gpu {

BorrowedContext::BorrowedContext(std::shared_ptr<const Driver> driver) : driver_(std::move(driver)) {
    CUcontext context = nullptr;
    throw_if_failed(*driver_, driver_->api().ctx_get_current(&context), "cuCtxGetCurrent");
    raw_ = context;
}

void BorrowedContext::make_current() const {
    throw_if_failed(*driver_, driver_->api().ctx_set_current(static_cast<CUcontext>(raw_)), "cuCtxSetCurrent");
}

}  // namespace autotune::gpu
