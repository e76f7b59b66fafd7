//! The definitions that are installed in a cluster.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use kube::CustomResourceExt;

use apiextensions::{CustomResourceDefinition, JSONSchemaProps};

use crate::plugin::Plugin;

/// The definition of every kind, in the order in which they are installed.
///
/// They differ from `Plugin::crd()` in one thing: no field is nullable. The API server then drops
/// a field that is written as `null`, and fills in its default. So `null` and *left out* mean the
/// same to every rule, and `has(self.field)` means that there is something.
pub fn definitions() -> Vec<CustomResourceDefinition> {
    [Plugin::crd()].into_iter().map(without_nulls).collect()
}

fn without_nulls(mut definition: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        schema.into_iter().for_each(forbid_null);
    }
    definition
}

/// In this schema and in all below it.
fn forbid_null(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.properties.iter_mut().flat_map(|fields| fields.values_mut()).for_each(forbid_null);
    match &mut schema.items {
        Some(apiextensions::JSONSchemaPropsOrArray::Schema(items)) => forbid_null(items),
        Some(apiextensions::JSONSchemaPropsOrArray::Schemas(items)) => {
            items.iter_mut().for_each(forbid_null);
        }
        None => {}
    }
    match &mut schema.additional_properties {
        Some(apiextensions::JSONSchemaPropsOrBool::Schema(values)) => forbid_null(values),
        Some(apiextensions::JSONSchemaPropsOrBool::Bool(_)) | None => {}
    }
}
