#pragma once

#include <string>

namespace autotune::tuner {

// A temporary folder for this run only, for cases in which none is given; removed at the end.
class RunFolder {
  public:
    RunFolder() = default;
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;
    // `named`, or the run's own folder if that is empty; empty if none can be made.
    std::string or_named(const std::string& named);

  private:
    std::string path_;
};

}  // namespace autotune::tuner
