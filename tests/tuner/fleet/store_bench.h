#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/support/postgres/postgres_server.h"
#include "tuner/fleet/store/fleet_store.h"

namespace autotune::fleet {

inline constexpr const char* kDevice = "cc9.0-sm132-l2_60-mem144-bus6016";
inline const std::string kCatalogue(64, 'a');

// A store in a database of its own. Roles: alice and bob are workers, carol a client, dora a curator.
class StoreTest : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const std::string why = test::PostgresServer::why_missing(); !why.empty()) GTEST_SKIP() << why;
        server_ = &test::PostgresServer::shared();
        database_ = server_->new_database();
        FleetStore(options("postgres"), FleetStore::Unchecked{}).migrate("0.1.0");
        server_->sql(
            database_,
            "DO $$ BEGIN CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE carol LOGIN; CREATE ROLE dora LOGIN;"
            " CREATE ROLE eve LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;"
            "GRANT autotune_worker TO alice, bob; GRANT autotune_client TO carol; GRANT autotune_curator TO dora;");
    }
    Connection::Options options(const std::string& role) const {
        return {.address = server_->address(database_, role), .query_limit = std::chrono::seconds(10)};
    }
    FleetStore as(const char* role) const { return FleetStore(options(role)); }
    std::string sql(const std::string& text) const {
        std::string said = server_->sql(database_, text);
        while (!said.empty() && said.back() == '\n') said.pop_back();
        return said;
    }
    void set(const std::string& name, double value) const {
        sql("UPDATE autotune.setting SET value = " + std::to_string(value) + " WHERE name = '" + name + "'");
    }
    static Wanted add_of(int n, std::int64_t calls = 1) {
        return {"add dtype=f16 align=16,16,16", std::to_string(n), kDevice, kCatalogue, calls};
    }
    static std::string line_of(int n, double us = 1.5, const std::string& date = "2026-11-23T18:51:56Z") {
        return R"({"op":"add","arch":"sm_90a","problem":{"class":"add dtype=f16 align=16,16,16","extents":{"n":)" +
               std::to_string(n) +
               R"(}},"device":{"cc_major":9,"cc_minor":0,"sm_count":132,"l2_mib":60,"memory_gib":140,"bus_bits":6016,"name":"NVIDIA H200"},)"
               R"("template":"43e692f5dc6ad62d","family":"add/vector","config":{"vec":8},"timing":{"median_us":)" +
               std::to_string(us) + R"(},"provenance":{"driver":"580","nvrtc":"13.0","method":"m","date":")" + date + R"("}})";
    }
    static std::string state_of(const StoreError& error) { return error.sqlstate(); }

    test::PostgresServer* server_ = nullptr;
    std::string database_;
};

// The SQLSTATE with which a call is refused; "" if it is not.
template <typename Call>
std::string refusal(const Call& call) {
    try {
        call();
    } catch (const StoreError& error) {
        return error.sqlstate();
    }
    return "";
}
// Its message.
template <typename Call>
std::string message(const Call& call) {
    try {
        call();
    } catch (const std::exception& error) {
        return error.what();
    }
    return "";
}

}  // namespace autotune::fleet
