#pragma once

#include <string>

namespace autotune::tuner {

// For what a run is given no folder for: one for this run alone, removed with it.
class RunFolder {
  public:
    RunFolder() = default;
    ~RunFolder();
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;
    // `named`, or the run's own folder if that is empty; empty where none can be made.
    std::string or_named(const std::string& named);

  private:
    std::string path_;
};

}  // namespace autotune::tuner
